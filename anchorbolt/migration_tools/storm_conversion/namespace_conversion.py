"""Converts some namespaces: each hash into a temporary one; then all are swapped, and the originals kept as backups.

On a single server one transaction swaps the hashes of all namespaces. In a cluster without a common hash tag each hash
is swapped by itself (`base64_to_binary.swapping`). A hash in the target's format is left alone, so that the next run of
the same command finishes what a killed one has begun.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.comparison import equal
from anchorbolt.migration_tools.base64_to_binary.conversion import Action, HashResult, NamespaceResult
from anchorbolt.migration_tools.base64_to_binary.swapping import SwappedNamespaces
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import backup_of, hashes_of
from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions, HashConversion, source_of
from anchorbolt.migration_tools.storm_state import SAMPLE_ENTRIES
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes, shown


class NamespaceConversion(SwappedNamespaces):
    """The conversion of some namespaces, all of them or none."""

    def __init__(
        self, hashes: RedisHashes, namespaces: Sequence[bytes], options: ConversionOptions, progress: Progress
    ) -> None:
        super().__init__(hashes, namespaces, progress, None, dry_run=options.dry_run)
        self._options = options

    def run(self) -> list[NamespaceResult]:
        """Convert all hashes. Raises `MigrationRefused` or `StateError` if one is refused; then nothing has changed."""
        types = self.types()
        for namespace in self._namespaces:
            self._check(namespace, types)
        present = [key for key in self.keys if types[key] != "none"]
        results = {each.key: each for each in self.replaced(present, self._convert)}
        return [
            NamespaceResult(shown(each), tuple(results[shown(key)] for key in hashes_of(each) if shown(key) in results))
            for each in self._namespaces
        ]

    def _check(self, namespace: bytes, types: Mapping[bytes, str]) -> None:
        """Refuse a namespace that does not exist, that is a backup, or that another tool has left half done."""
        self.check_named(namespace, types)
        _, committed = hashes_of(namespace)
        if types[committed] == "none" and types[backup_of(committed)] != "none":
            raise self.refusal(
                f"{shown(committed)} is not there, but {shown(backup_of(committed))} is: a migration by another tool, "
                "such as Storm's own, did not finish. Put it back with `anchorbolt migrate undo`, and convert again"
            )

    def _convert(self, key: bytes) -> HashResult:
        """Convert a hash into a temporary hash, unless it is in the target's format already."""
        name, backup = shown(key), backup_of(key)
        self._namespace = key.removesuffix(b"$prepare")
        has_backup = self.has_backup(key)
        kept = shown(backup) if has_backup else None
        sample = list(islice(chain.from_iterable(self._hashes.entries(key)), SAMPLE_ENTRIES))
        source = source_of(sample, name, self._options)
        if source is None:
            content = f"storm-{self._options.target.value}"
            return HashResult(name, Action.LEFT_AS_IS, self._hashes.length(key), content, kept_as=kept)
        if has_backup and not equal(self._hashes, backup, key, self._progress):
            raise self.refusal(
                f"{kept} exists, and differs from {name}: it is the backup of other data, and is not overwritten. If "
                "nobody needs it, remove it with `anchorbolt migrate discard-backup`, or with "
                f"`redis-cli UNLINK '{kept}'`; then convert again"
            )
        entries = self.converted(
            key, HashConversion(name, source, sample, self._options.target, self._options.facts).page
        )
        self.is_ready(key, entries)
        action = Action.WOULD_CONVERT if self._dry_run else Action.CONVERTED
        return HashResult(name, action, entries, f"storm-{source.generation.value}", kept_as=shown(backup))
