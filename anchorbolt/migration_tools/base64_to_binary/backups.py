"""Compares a migrated namespace with its backups, restores the backups, or discards them."""

from collections.abc import Mapping
from itertools import chain, islice

from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.comparison import Comparison, PageConversion, compare
from anchorbolt.migration_tools.base64_to_binary.conversion import Action, HashResult, NamespaceResult, Wrapper
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import (
    DROPPED,
    UNDONE_SUFFIX,
    WatchedNamespace,
    backup_of,
    txid_of,
)
from anchorbolt.migration_tools.storm_conversion.conversion import HashConversion, StormFacts
from anchorbolt.migration_tools.storm_state import SAMPLE_ENTRIES
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content, StoredForm, detect
from anchorbolt.storm.wrapper import Generation

_BASE64_TO_BINARY = (Generation.STORM_1_0, Generation.STORM_1_1, Generation.STORM_1_2)


class Backups(WatchedNamespace):
    """Verifies, restores or discards the backups of one namespace.

    `facts` are needed only for the backups of a conversion to another Storm's format.
    """

    def __init__(
        self,
        hashes: RedisHashes,
        namespace: bytes,
        progress: Progress,
        content: Content | None,
        facts: StormFacts,
        *,
        dry_run: bool,
    ) -> None:
        super().__init__(hashes, [namespace], progress, content, dry_run=dry_run)
        self._facts = facts

    def verify(self, wrapper: Wrapper | None = None) -> NamespaceResult:
        """Compare each hash with its converted backup, in `wrapper` or else in either. Return the first difference."""
        results, error = [], None
        for key, found in self._compared().items():
            action, reason = Action.SAME, ""
            if not found.same:
                action = Action.NOT_CONVERTED if found.unconverted else Action.DIFFERENT
                reason = f"{self._difference(key, found)}. A topology that has run since causes such differences"
            elif wrapper not in (None, found.wrapper):
                action = Action.DIFFERENT
                reason = (
                    f"{shown(key)} is what --wrapper {found.wrapper.value} makes of its backup: undo it, and migrate "
                    "again"
                )
            if reason:
                error = error or self.refusal(reason)
            results.append(self._result(key, found, action, backup_of(key)))
        return self.result(results, error)

    def undo(self, *, keep_changed: bool) -> NamespaceResult:
        """Rename each backup to its original hash and delete the converted copy.

        If a hash is not the conversion of its backup, keep it as `<ns>_undone` with `keep_changed`, else refuse.
        """
        compared = self._compared()
        if not keep_changed:
            self._check_prepared_is_there(compared)
        for key, found in compared.items():
            if found.changed:
                self._check_may_be_put_aside(key, found, keep_changed)
        if not self._dry_run:
            self._put_back(compared)
        action = Action.WOULD_PUT_BACK if self._dry_run else Action.PUT_BACK
        return self.result(
            self._result(key, found, action, self._aside(key) if found.changed else None)
            for key, found in compared.items()
        )

    def discard(self) -> NamespaceResult:
        """Delete the backups, if each hash is the conversion of its backup. Refuse otherwise."""
        compared = self._compared()
        for key, found in compared.items():
            if not found.same:
                raise self.refusal(
                    f"{self._difference(key, found)}, so the backup is kept. If a topology has run since and the state "
                    f"is right, remove the backup with `redis-cli UNLINK '{shown(backup_of(key))}'`"
                )
        if not self._dry_run:
            for keys in self.groups(list(compared)):
                self._remove_backups(keys)
                self.done.append(f"the backup of {shown(keys[0])} was discarded")
        action = Action.WOULD_DISCARD_BACKUP if self._dry_run else Action.BACKUP_DISCARDED
        return self.result(self._result(key, found, action, None) for key, found in compared.items())

    def _compared(self) -> dict[bytes, Comparison]:
        """Compare each hash that has a backup with it."""
        types = self.types()
        compared = {}
        for key in self.keys:
            backup = backup_of(key)
            exists = self.on(key).exists(key)
            if self.on(backup).exists(backup):
                self.check_stay(key, backup)
                compared[key] = (
                    compare(
                        self._hashes,
                        backup,
                        key,
                        self._progress,
                        self._content,
                        conversions=self._conversions(backup, key),
                    )
                    if exists
                    else Comparison(self._hashes.length(backup), exists=False)
                )
        is_empty = all(types[key] == "none" for key in self.keys) and types[txid_of(self._namespace)] != "none"
        if not compared and not is_empty:
            raise self.refusal(
                f"{self._hashes.address} has no {shown(backup_of(self._namespace))}: it was not migrated, or its "
                "backup has been discarded"
            )
        return compared

    def _conversions(self, backup: bytes, key: bytes) -> Mapping[Wrapper, PageConversion] | None:
        """Return the conversion to another Storm's format, if the hashes show one; None if from Base64 to binary."""
        if self._content is not None:
            return None
        samples = [
            list(islice(chain.from_iterable(self._hashes.entries(each)), SAMPLE_ENTRIES)) for each in (backup, key)
        ]
        before, after = map(detect, samples)
        if before is None or after is None or before == after:
            return None
        # Results of `base64-to-binary`. Its conversion also keeps classes that cannot be read.
        if before.base64 and after in (StoredForm(each, base64=False) for each in _BASE64_TO_BINARY):
            return None
        conversion = HashConversion(shown(backup), before, samples[0], after.generation, self._facts)
        return {Wrapper.STORM_1_2: conversion}

    def _difference(self, key: bytes, found: Comparison) -> str:
        name, backup = shown(key), shown(backup_of(key))
        if not found.exists:
            return f"{name} is not there, but {backup} is"
        if found.unconverted:
            return f"{name} is equal to {backup}: it has not been converted"
        return f"{name} is not what {backup} converts to ({found})"

    def _check_prepared_is_there(self, compared: dict[bytes, Comparison]) -> None:
        """Refuse if a prepared hash is missing beside a converted one: a topology has rolled it back or committed it.

        If it were restored, a topology would take it for prepared again. If no hash was converted, another tool has
        not finished, and the prepared hash is restored.
        """
        committed = compared.get(self._namespace)
        if committed is not None and (committed.same or committed.changed):
            for key, found in compared.items():
                if not found.exists:
                    raise self.refusal(
                        f"{self._difference(key, found)}, so it is not put back: a topology has run since, and has "
                        "committed or rolled back the prepared state. With --keep-changed it is put back anyway"
                    )

    def _check_may_be_put_aside(self, key: bytes, found: Comparison, keep_changed: bool) -> None:
        aside = self._aside(key)
        if not keep_changed:
            raise self.refusal(
                f"{self._difference(key, found)}, so it is not replaced: later writes would be lost. With "
                f"--keep-changed it is kept as {shown(aside)}"
            )
        if self._hashes.types([aside])[aside] != "none":
            raise self.refusal(f"{shown(aside)} exists already and is not overwritten: rename or remove it first")

    def _put_back(self, compared: dict[bytes, Comparison]) -> None:
        if not self.together:
            for key in compared:
                self.copied(backup_of(key), key)
        for keys in self.groups(list(compared)):
            connection = self.on(keys[0])
            if not self.together:
                self.watch_temporary(keys[0], compared[keys[0]].entries, connection)
            commands = [command for key in keys for command in self._commands(key, compared[key])]
            if not connection.transaction(commands):
                raise self.changed(*keys)
            if not self.together:
                self._remove_backups(keys)
                self.done.append(f"{shown(keys[0])} was put back")

    def _commands(self, key: bytes, found: Comparison) -> list[tuple[str | bytes, ...]]:
        """Return the commands that rename the backup, or its copy, to the hash's name."""
        rename: tuple[str | bytes, ...] = ("RENAME", backup_of(key) if self.together else self.temporary_of(key), key)
        if not found.exists:
            return [rename]
        if found.changed:
            return [("RENAMENX", key, self._aside(key)), rename]
        dropped = self.temporary_of(key, DROPPED)
        return [("RENAME", key, dropped), rename, ("UNLINK", dropped)]

    def _remove_backups(self, keys: list[bytes]) -> None:
        backups = [backup_of(key) for key in keys]
        # The keys are watched: if a hash or a backup has changed since the comparison, nothing is removed.
        if not self.on(backups[0]).transaction([("UNLINK", backup) for backup in backups]):
            raise self.changed(*backups)

    def _aside(self, key: bytes) -> bytes:
        return self._hashes.sibling(key, UNDONE_SUFFIX)

    def _result(self, key: bytes, found: Comparison, action: Action, kept_as: bytes | None) -> HashResult:
        tells = action in (Action.SAME, Action.WOULD_DISCARD_BACKUP, Action.BACKUP_DISCARDED)
        return HashResult(
            shown(key),
            action,
            found.entries,
            found.content.value if found.content else None,
            kept_as=None if kept_as is None else shown(kept_as),
            note=found.note if tells else "",
        )
