"""Migrates one namespace: converts each hash into a temporary one, then swaps them and keeps the source as a backup.

The source does not change before the swap. A connection that watches the hash reads it; each page that is written to
the temporary hash is read back and compared, and at the end the entries are counted. Then:

- On a single server, and in a cluster if the namespace has a hash tag, one transaction swaps both hashes: it renames
  `<ns>` to `<ns>_old`, and the temporary hash to `<ns>`.
- In a cluster without a hash tag the backup is a copy, written under a temporary name, read back, and then renamed to
  `<ns>_old`. One transaction for each hash then renames the temporary hash to `<ns>`; if the second transaction fails,
  the first is undone. A run that is killed in between leaves a backup that equals its hash; the next run finishes it.

A transaction fails if a key that it depends on has changed since it was first read. Rejected: locks, which a killed run
leaves behind; scripts, which stall the server; DUMP and RESTORE, which fail on large hashes.
"""

import contextlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from anchorbolt.errors import AnchorboltError, StateCorrupted, StateError
from anchorbolt.migration_tools.base64_to_binary.comparison import compare, equal, field_in_two_forms
from anchorbolt.migration_tools.base64_to_binary.conversion import Conversion, MigrationOptions, Unfit, Wrapper
from anchorbolt.migration_tools.base64_to_binary.names import (
    DROPPED,
    backed_up,
    backup_of,
    hashes_of,
    new_suffix,
    txid_of,
)
from anchorbolt.migration_tools.base64_to_binary.results import Action, HashResult
from anchorbolt.migration_tools.base64_to_binary.watches import Watches
from anchorbolt.migration_tools.progress import Progress
from anchorbolt.state_backends.redis.hashes import FieldsAndValues, HashConnection, RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content, Recognition, Verdict, shown_field

STOP_FIRST = "Stop the topology that owns the state, and everything else that writes to it, and run the migration again"


@dataclass(frozen=True)
class _Staged:
    """A hash that can be converted."""

    key: bytes
    converted: bytes | None  # the temporary hash that becomes `key`; None in a dry run
    copy: bytes | None  # the temporary hash that becomes the backup; None if `key` is renamed or a backup exists
    has_backup: bool  # by an earlier run
    result: HashResult


def migrate_namespace(
    hashes: RedisHashes, namespace: bytes, options: MigrationOptions, progress: Progress
) -> tuple[HashResult, ...]:
    """Migrate the hashes of one namespace. Raises `StateError` if it is refused; then nothing has been changed."""
    migration = _Migration(hashes, namespace, options, progress)
    try:
        return migration.run()
    finally:
        migration.clean_up()


class _Migration:
    def __init__(self, hashes: RedisHashes, namespace: bytes, options: MigrationOptions, progress: Progress) -> None:
        self._hashes = hashes
        self._namespace = namespace
        self._options = options
        self._progress = progress
        self._suffix = new_suffix()
        self._temporary: list[bytes] = []

    def run(self) -> tuple[HashResult, ...]:
        present = self._present()
        if self._options.content is Content.BINARY:
            return tuple(self._left_alone(key, Verdict(Content.BINARY)) for key in present)
        with Watches(self._hashes, self._namespace) as watches:
            watches.begin()
            outcomes = [self._stage(key, watches) for key in present]
            if watches.others_changed():
                raise self._changed(txid_of(self._namespace), "was written to during the migration")
            self._swap([each for each in outcomes if isinstance(each, _Staged)], watches)
        return tuple(each.result if isinstance(each, _Staged) else each for each in outcomes)

    def clean_up(self) -> None:
        """Remove temporary hashes. If Redis cannot be reached, the next run removes them."""
        if self._temporary:
            with contextlib.suppress(AnchorboltError):
                self._hashes.remove(self._temporary)

    def _present(self) -> list[bytes]:
        """Return the hashes of the namespace that exist. Refuse a namespace without any and keys of another type."""
        keys = hashes_of(self._namespace)
        of = backed_up(self._namespace)
        if of is not None and self._hashes.types([of])[of] != "none":
            raise self._refusal(
                f"{shown(self._namespace)} is the backup of {shown(of)}, and stays as it is: name only {shown(of)}"
            )
        types = self._hashes.types([*keys, *map(backup_of, keys), txid_of(self._namespace)])
        for key, kind in types.items():
            if kind not in ("none", "hash"):
                raise self._refusal(
                    f"{shown(key)} in {self._hashes.address} is a {kind}, not a hash as Storm's state is: name a "
                    "namespace of Storm's"
                )
        lost = [key for key in keys if types[key] == "none" and types[backup_of(key)] != "none"]
        if lost and not self._may_be_committed(lost, types):
            raise self._refusal(
                f"{shown(lost[0])} is not there, but {shown(backup_of(lost[0]))} is: a migration by another tool, "
                "such as Storm's own, did not finish. Put it back with `anchorbolt migrate undo`, and migrate again"
            )
        if all(types[key] == "none" for key in (*keys, txid_of(self._namespace))):
            raise self._refusal(
                f"{self._hashes.address} has no namespace {shown(self._namespace)}: check its name, which Storm makes "
                "as <component>-<task>, and the number of the database"
            )
        return [key for key in keys if types[key] != "none"]

    def _may_be_committed(self, lost: list[bytes], types: Mapping[bytes, str]) -> bool:
        """Return whether a prepared hash can be missing because a topology committed it after the migration."""
        if self._namespace in lost or types[self._namespace] == "none":
            return False
        return self._recognise(self._namespace).content is Content.BINARY

    def _stage(self, key: bytes, watches: Watches) -> HashResult | _Staged:
        """Convert a hash into a temporary one, unless there is nothing to convert."""
        backup = backup_of(key)
        source = watches.on(key)
        has_backup = watches.on(backup).exists(backup)
        for each in (key, backup):
            if watches.on(each).expires(each):
                raise self._refusal(
                    f"{shown(each)} expires, which Storm's state never does: to keep it, PERSIST it first"
                )
        if has_backup:
            done = self._done_before(key, backup)
            if done is not None:
                return done
        wet = not self._options.dry_run
        converted = self._hashes.sibling(key, self._suffix) if wet else None
        conversion = Conversion(self._options.wrapper, self._options.content)
        try:
            entries = self._fill(source, key, converted, f"converting {shown(key)}", conversion.page)
            conversion.finish()
        except Unfit as unfit:
            return self._without_conversion(key, unfit)
        assert conversion.content is not None
        action = Action.CONVERTED if wet else Action.WOULD_CONVERT
        result = HashResult(shown(key), action, entries, conversion.content.value, kept_as=shown(backup))
        copy = None
        if wet and not watches.together and not has_backup:
            copy = self._hashes.sibling(backup, self._suffix)
            self._fill(source, key, copy, f"copying {shown(key)} to {shown(backup)}", lambda page: page)
        return _Staged(key, converted, copy, has_backup, result)

    def _done_before(self, key: bytes, backup: bytes) -> HashResult | None:
        """Return the result for a hash that is converted already; None if it still has to be swapped.

        Refuse a backup that does not belong to the hash.
        """
        content = self._options.content
        found = compare(self._hashes, backup, key, self._progress, content, to_its_end=False)
        if found.same:
            note = found.note if self._options.wrapper is Wrapper.STORM_1_2 else ""
            return HashResult(
                shown(key), Action.CONVERTED_BEFORE, found.entries, "binary", kept_as=shown(backup), note=note
            )
        if equal(self._hashes, backup, key, self._progress):
            return None  # a run was killed after it had made the backup
        verdict = self._recognise(key)
        if verdict.content is Content.BINARY:
            return replace(self._left_alone(key, verdict), kept_as=shown(backup))
        raise self._refusal(
            f"{shown(backup)} exists, and {shown(key)} is neither equal to it nor its conversion, so it is the backup "
            "of other data, and is not overwritten. Put it back with `anchorbolt migrate undo --keep-changed`, or, "
            f"if nobody needs it, remove it with `redis-cli UNLINK '{shown(backup)}'`; then migrate again"
        )

    def _fill(
        self,
        source: HashConnection,
        key: bytes,
        target: bytes | None,
        what: str,
        convert: Callable[[FieldsAndValues], FieldsAndValues],
    ) -> int:
        """Convert a hash, write it to `target` if there is one, and return the number of entries.

        Refuse it if Redis returns other data than was written. `convert` may raise `Unfit`.
        """
        length = source.length(key)
        self._progress.begin(what, length)
        with ExitStack() as stack:
            writer = None
            if target is not None:
                self._temporary.append(target)
                writer = stack.enter_context(self._hashes.connection(target))
            for page in stack.enter_context(closing(source.pages(key))):
                converted = convert(page)
                if target is not None and writer is not None:
                    # Confirms the page before: the server wrote it while this page was converted.
                    self._confirm(writer, key)
                    writer.write(target, converted)
                self._progress.advance(len(page) // 2)
            if target is not None and writer is not None:
                self._confirm(writer, key)
                if writer.length(target) != length:
                    raise self._miscounted(key, length, writer.length(target))
        return length

    def _confirm(self, writer: HashConnection, key: bytes) -> None:
        if not writer.confirm():
            raise self._in_two_forms(key) or StateCorrupted(
                f"{self._hashes.address} returned other data than was written for {shown(key)}. Nothing was swapped. "
                "Check the server's log and memory before you run it again",
                namespace=shown(self._namespace),
            )

    def _miscounted(self, key: bytes, length: int, written: int) -> StateError:
        return self._in_two_forms(key) or self._changed(
            key, f"had {length:,} entries, and {written:,} of them were read"
        )

    def _in_two_forms(self, key: bytes) -> StateError | None:
        twice = field_in_two_forms(self._hashes, key)
        if twice is None:
            return None
        return self._refusal(
            f"{shown_field(twice)} is in {shown(key)} twice, with other line breaks, which decode to the same: remove "
            "one of them"
        )

    def _swap(self, staged: list[_Staged], watches: Watches) -> None:
        """Rename all temporary hashes to their final names, if nothing has changed. A dry run has none."""
        ready = {each.key: each for each in staged if each.converted is not None}
        copied = [backup_of(each.key) for each in ready.values() if each.copy is not None]
        for each in ready.values():
            if each.copy is not None:
                self._publish(backup_of(each.key), each.copy, each.result.entries, watches)
        swapped: list[_Staged] = []
        for keys in watches.groups(list(ready)):
            connection = watches.on(keys[0])
            commands = [command for key in keys for command in self._swap_commands(ready[key], connection)]
            if not connection.transaction(commands):
                for each in swapped:
                    self._swap_back(each)
                # These backups copy outdated data. After any other error they stay: the swap may have happened.
                self._hashes.remove(copied)
                raise self._changed(b" or ".join(keys), "was written to during the migration")
            swapped += [ready[key] for key in keys]

    def _swap_back(self, staged: _Staged) -> None:
        """Undo the swap of one hash in a cluster after the next hash's transaction failed."""
        key, dropped = staged.key, self._dropped(staged.key)
        assert staged.converted is not None
        with self._hashes.connection(key) as connection:
            connection.watch(key)
            is_ours = connection.length(key) == staged.result.entries
            commands = [("RENAME", key, staged.converted), ("RENAME", dropped, key)]
            if not (is_ours and connection.transaction(commands)):
                raise self._refusal(
                    f"{shown(key)} was written to right after it had been converted, and before the rest of its "
                    f"namespace was. {STOP_FIRST}"
                )

    def _publish(self, backup: bytes, copy: bytes, entries: int, watches: Watches) -> None:
        connection = watches.on(backup)
        self._watch_temporary(copy, entries, connection)
        if not connection.transaction([("RENAMENX", copy, backup)]):
            raise self._changed(backup, "was written to during the migration")

    def _swap_commands(self, staged: _Staged, connection: HashConnection) -> list[tuple[bytes | str, ...]]:
        key, converted = staged.key, staged.converted
        assert converted is not None
        self._watch_temporary(converted, staged.result.entries, connection)
        if staged.has_backup or staged.copy is not None:
            # RENAME onto a large hash blocks the server while it deletes the hash. So rename it, then UNLINK it.
            dropped = self._dropped(key)
            self._temporary.append(dropped)
            return [("RENAME", key, dropped), ("RENAME", converted, key)]
        return [("RENAMENX", key, backup_of(key)), ("RENAME", converted, key)]

    def _dropped(self, key: bytes) -> bytes:
        return self._hashes.sibling(key, self._suffix + DROPPED)

    def _watch_temporary(self, key: bytes, entries: int, connection: HashConnection) -> None:
        connection.watch(key)
        if connection.length(key) != entries:
            raise self._changed(key, "was removed by another migration, which ran at the same time,")

    def _without_conversion(self, key: bytes, unfit: Unfit) -> HashResult:
        """Leave a hash alone that cannot be converted because it is binary. Refuse any other."""
        if self._options.content is not None:
            raise self._refusal(
                f"{shown(key)} is not Base64 of {self._options.content.value} throughout: {unfit}. Nothing was changed"
            )
        verdict = self._recognise(key)
        if verdict.content is Content.BINARY:
            return self._left_alone(key, verdict)
        if verdict.content is not None:
            raise self._changed(key, "was written to during the migration")
        raise self._refusal(
            f"{shown(key)} is neither clearly Base64 nor clearly binary: {verdict.reason}. Nothing was changed. Fix it "
            f"and migrate again; or, if the data is right, name its format by --format {Content.STORM_1_0.value}, "
            f"{Content.STORM_1_1.value} or {Content.BINARY.value}"
        )

    def _recognise(self, key: bytes) -> Verdict:
        recognition = Recognition()
        with self._hashes.connection(key) as reader, closing(reader.pages(key)) as pages:
            self._progress.begin(f"reading {shown(key)}", self._hashes.length(key))
            for page in pages:
                recognition.add(page)
                self._progress.advance(len(page) // 2)
        return recognition.verdict()

    def _left_alone(self, key: bytes, verdict: Verdict) -> HashResult:
        note = ""
        if verdict.wrapped_as_1_1 and self._options.wrapper is Wrapper.STORM_1_2:
            note = (
                "Its values are in the wrapper of Storm 1.1, which no later Storm reads: undo what converted it, and "
                "migrate again"
            )
        return HashResult(shown(key), Action.LEFT_BINARY, self._hashes.length(key), Content.BINARY.value, note=note)

    def _changed(self, key: bytes, what: str) -> StateError:
        return self._refusal(f"{shown(key)} {what}, so nothing was swapped. {STOP_FIRST}")

    def _refusal(self, message: str) -> StateError:
        return StateError(message, namespace=shown(self._namespace))
