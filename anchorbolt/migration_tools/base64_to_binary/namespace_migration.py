"""Migrates one namespace from Base64 to binary: decides for each hash whether and how to convert it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.comparison import compare
from anchorbolt.migration_tools.base64_to_binary.conversion import (
    Action,
    Conversion,
    HashResult,
    MigrationOptions,
    NamespaceResult,
    Unfit,
    Wrapper,
)
from anchorbolt.migration_tools.base64_to_binary.swapping import SwappedNamespaces
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import backup_of, pages_of
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content, Recognition, Verdict


class Migration(SwappedNamespaces):
    """The migration of one namespace."""

    def __init__(self, hashes: RedisHashes, namespace: bytes, options: MigrationOptions, progress: Progress) -> None:
        super().__init__(hashes, [namespace], progress, options.content, dry_run=options.dry_run)
        self._wrapper = options.wrapper

    def run(self) -> NamespaceResult:
        """Migrate all hashes. Raise `StateError` if one is refused; then nothing has been changed."""
        present = self._present()
        if self._content is Content.BINARY:
            return self.result(self._left_alone(key, Verdict(Content.BINARY)) for key in present)
        return self.result(self.replaced(present, self._convert))

    def _present(self) -> list[bytes]:
        """Return the hashes of the namespace that exist. Refuse a namespace without any and keys of another type."""
        types = self.types()
        self.check_named(self._namespace, types)
        lost = [key for key in self.keys if types[key] == "none" and types[backup_of(key)] != "none"]
        if lost and not self._may_be_committed(lost, types):
            raise self.refusal(
                f"{shown(lost[0])} is not there, but {shown(backup_of(lost[0]))} is: a migration by another tool, "
                "such as Storm's own, did not finish. Put it back with `anchorbolt migrate undo`, and migrate again"
            )
        return [key for key in self.keys if types[key] != "none"]

    def _may_be_committed(self, lost: list[bytes], types: Mapping[bytes, str]) -> bool:
        """Return whether a prepared hash can be missing because a topology committed it after the migration."""
        if self._namespace in lost or types[self._namespace] == "none":
            return False
        return self._recognise(self._namespace).content is Content.BINARY

    def _convert(self, key: bytes) -> HashResult:
        """Convert a hash into a temporary hash, unless there is nothing to convert."""
        backup = backup_of(key)
        if self.has_backup(key):
            done = self._done_before(key, backup)
            if done is not None:
                return done
        conversion = Conversion(self._wrapper, self._content)
        try:
            entries = self.converted(key, conversion.page)
            conversion.finish()
        except Unfit as unfit:
            return self._without_conversion(key, unfit)
        assert conversion.content is not None
        self.is_ready(key, entries)
        action = Action.WOULD_CONVERT if self._dry_run else Action.CONVERTED
        return HashResult(shown(key), action, entries, conversion.content.value, kept_as=shown(backup))

    def _done_before(self, key: bytes, backup: bytes) -> HashResult | None:
        """Return the result for a hash that is already converted; None if it must still be swapped.

        Refuse a backup that does not belong to the hash.
        """
        found = compare(self._hashes, backup, key, self._progress, self._content, to_its_end=False)
        if found.unconverted:
            return None  # a run was killed after it had created the backup
        if found.same:
            note = found.note if self._wrapper is Wrapper.STORM_1_2 else ""
            return HashResult(
                shown(key), Action.CONVERTED_BEFORE, found.entries, "binary", kept_as=shown(backup), note=note
            )
        verdict = self._recognise(key)
        if verdict.content is Content.BINARY:
            return replace(self._left_alone(key, verdict), kept_as=shown(backup))
        raise self.refusal(
            f"{shown(backup)} exists, and {shown(key)} is neither equal to it nor its conversion, so it is the backup "
            "of other data, and is not overwritten. Put it back with `anchorbolt migrate undo --keep-changed`, or, "
            f"if nobody needs it, remove it with `redis-cli UNLINK '{shown(backup)}'`; then migrate again"
        )

    def _without_conversion(self, key: bytes, unfit: Unfit) -> HashResult:
        """Keep a hash that cannot be converted because it is binary. Refuse any other hash."""
        if self._content is not None:
            raise self.refusal(
                f"{shown(key)} is not Base64 of {self._content.value} throughout: {unfit}. Nothing was changed"
            )
        verdict = self._recognise(key)
        if verdict.content is Content.BINARY:
            return self._left_alone(key, verdict)
        if verdict.content is not None:
            raise self.changed(key)
        raise self.refusal(
            f"{shown(key)} is neither clearly Base64 nor clearly binary: {verdict.reason}. Nothing was changed. Fix it "
            f"and migrate again; or, if the data is right, name its format by --format {Content.STORM_1_0.value}, "
            f"{Content.STORM_1_1.value} or {Content.BINARY.value}"
        )

    def _recognise(self, key: bytes) -> Verdict:
        recognition = Recognition()
        with closing(pages_of(self._hashes, key, self._progress, f"reading {shown(key)}")) as pages:
            for page in pages:
                recognition.add(page)
        return recognition.verdict()

    def _left_alone(self, key: bytes, verdict: Verdict) -> HashResult:
        note = ""
        if verdict.wrapped_as_1_1 and self._wrapper is Wrapper.STORM_1_2:
            note = (
                "Its values are in the wrapper of Storm 1.1, which no later Storm reads: undo what converted it, and "
                "migrate again"
            )
        return HashResult(shown(key), Action.LEFT_BINARY, self._hashes.length(key), Content.BINARY.value, note=note)
