"""Compares a migrated namespace with its backups, restores the backups, or discards them."""

from dataclasses import dataclass

from anchorbolt.migration_tools.base64_to_binary.comparison import Comparison, compare
from anchorbolt.migration_tools.base64_to_binary.conversion import Wrapper
from anchorbolt.migration_tools.base64_to_binary.names import DROPPED, UNDONE_SUFFIX, backup_of, txid_of
from anchorbolt.migration_tools.base64_to_binary.results import Action, HashResult, NamespaceResult
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import WatchedNamespace
from anchorbolt.state_backends.redis.hashes import shown


@dataclass(frozen=True)
class _Pair:
    """A hash that has a backup."""

    key: bytes
    found: Comparison | None  # with the converted backup; None if the hash does not exist
    entries: int  # of the backup

    @property
    def same(self) -> bool:
        return self.found is not None and self.found.same

    @property
    def unconverted(self) -> bool:
        return self.found is not None and self.found.unconverted

    @property
    def changed(self) -> bool:
        """Whether the hash exists, and is neither the conversion of its backup nor equal to it."""
        return not (self.found is None or self.found.same or self.found.unconverted)


class Backups(WatchedNamespace):
    """Verifies, restores or discards the backups of one namespace."""

    def verify(self, wrapper: Wrapper | None = None) -> NamespaceResult:
        """Compare each hash with its converted backup, in `wrapper` or else in either. Return the first difference."""
        results, error = [], None
        for pair in self._pairs():
            action, reason = self._judged(pair, wrapper)
            if reason:
                error = error or self.refusal(reason)
            results.append(self._result(pair, action, backup_of(pair.key)))
        return self.result(results, error)

    def undo(self, *, keep_changed: bool) -> NamespaceResult:
        """Rename each backup to its original hash and delete the converted copy.

        If a hash is not the conversion of its backup, keep it as `<ns>_undone` with `keep_changed`, else refuse.
        """
        pairs = self._pairs()
        if not keep_changed:
            self._check_prepared_is_there(pairs)
        for pair in pairs:
            if pair.changed:
                self._check_may_be_put_aside(pair, keep_changed)
        if not self._dry_run:
            self._put_back(pairs)
        action = Action.WOULD_PUT_BACK if self._dry_run else Action.PUT_BACK
        return self.result(self._result(pair, action, self._aside(pair) if pair.changed else None) for pair in pairs)

    def discard(self) -> NamespaceResult:
        """Delete the backups, if each hash is the conversion of its backup. Refuse otherwise."""
        pairs = self._pairs()
        for pair in pairs:
            if not pair.same:
                raise self.refusal(
                    f"{self._difference(pair)}, so the backup is kept. If a topology has run since and the state "
                    f"is right, remove the backup with `redis-cli UNLINK '{shown(backup_of(pair.key))}'`"
                )
        if not self._dry_run:
            for keys in self.groups([pair.key for pair in pairs]):
                self._remove_backups(keys)
                self.done.append(f"the backup of {shown(keys[0])} was discarded")
        action = Action.WOULD_DISCARD_BACKUP if self._dry_run else Action.BACKUP_DISCARDED
        return self.result(self._result(pair, action, None) for pair in pairs)

    def _pairs(self) -> list[_Pair]:
        types = self.types()
        pairs = []
        for key in self.keys:
            backup = backup_of(key)
            exists = self.on(key).exists(key)
            if self.on(backup).exists(backup):
                self.check_stay(key, backup)
                entries = self.on(backup).length(backup)
                found = compare(self._hashes, backup, key, self._progress, self._content) if exists else None
                pairs.append(_Pair(key, found, entries))
        is_empty = all(types[key] == "none" for key in self.keys) and types[txid_of(self._namespace)] != "none"
        if not pairs and not is_empty:
            raise self.refusal(
                f"{self._hashes.address} has no {shown(backup_of(self._namespace))}: it was not migrated, or its "
                "backup has been discarded"
            )
        return pairs

    def _judged(self, pair: _Pair, wrapper: Wrapper | None) -> tuple[Action, str]:
        """Judge a hash. The second item is the reason for an error, or an empty string."""
        if pair.found is None or not pair.same:
            action = Action.NOT_CONVERTED if pair.unconverted else Action.DIFFERENT
            return action, f"{self._difference(pair)}. A topology that has run since causes such differences"
        if wrapper not in (None, pair.found.wrapper):
            return Action.DIFFERENT, (
                f"{shown(pair.key)} is what --wrapper {pair.found.wrapper.value} makes of its backup: undo it, and "
                "migrate again"
            )
        return Action.SAME, ""

    def _difference(self, pair: _Pair) -> str:
        key, backup = shown(pair.key), shown(backup_of(pair.key))
        if pair.found is None:
            return f"{key} is not there, but {backup} is"
        if pair.unconverted:
            return f"{key} is equal to {backup}: it has not been converted"
        return f"{key} is not what {backup} converts to ({pair.found})"

    def _check_prepared_is_there(self, pairs: list[_Pair]) -> None:
        """Refuse if a prepared hash is missing beside a converted one: a topology has rolled it back or committed it.

        If it were restored, a topology would take it for prepared again. If no hash was converted, another tool has
        not finished, and the prepared hash is restored.
        """
        converted = any(pair.key == self._namespace and (pair.same or pair.changed) for pair in pairs)
        for pair in pairs if converted else ():
            if pair.found is None:
                raise self.refusal(
                    f"{self._difference(pair)}, so it is not put back: a topology has run since, and has committed or "
                    "rolled back the prepared state. With --keep-changed it is put back anyway"
                )

    def _check_may_be_put_aside(self, pair: _Pair, keep_changed: bool) -> None:
        aside = self._aside(pair)
        if not keep_changed:
            raise self.refusal(
                f"{self._difference(pair)}, so it is not replaced: later writes would be lost. With "
                f"--keep-changed it is kept as {shown(aside)}"
            )
        if self._hashes.types([aside])[aside] != "none":
            raise self.refusal(f"{shown(aside)} exists already and is not overwritten: rename or remove it first")

    def _put_back(self, pairs: list[_Pair]) -> None:
        restored = {pair.key: backup_of(pair.key) for pair in pairs}
        if not self.together:
            restored = {key: self.copied(backup, key) for key, backup in restored.items()}
        by_key = {pair.key: pair for pair in pairs}
        for keys in self.groups(list(by_key)):
            connection = self.on(keys[0])
            if not self.together:
                self.watch_temporary(restored[keys[0]], by_key[keys[0]].entries, connection)
            commands = [command for key in keys for command in self._commands(by_key[key], restored[key])]
            if not connection.transaction(commands):
                raise self.changed(*keys)
            if not self.together:
                self._remove_backups(keys)
                self.done.append(f"{shown(keys[0])} was put back")

    def _commands(self, pair: _Pair, restored: bytes) -> list[tuple[str | bytes, ...]]:
        """Return the commands that rename `restored` to the hash's name."""
        rename: tuple[str | bytes, ...] = ("RENAME", restored, pair.key)
        if pair.found is None:
            return [rename]
        if pair.changed:
            return [("RENAMENX", pair.key, self._aside(pair)), rename]
        dropped = self._hashes.sibling(pair.key, self.suffix + DROPPED)
        return [("RENAME", pair.key, dropped), rename, ("UNLINK", dropped)]

    def _remove_backups(self, keys: list[bytes]) -> None:
        backups = [backup_of(key) for key in keys]
        # The keys are watched: if a hash or a backup has changed since the comparison, nothing is removed.
        if not self.on(backups[0]).transaction([("UNLINK", backup) for backup in backups]):
            raise self.changed(*backups)

    def _aside(self, pair: _Pair) -> bytes:
        return self._hashes.sibling(pair.key, UNDONE_SUFFIX)

    def _result(self, pair: _Pair, action: Action, kept_as: bytes | None) -> HashResult:
        content = pair.found.content if pair.found else None
        tells = action in (Action.SAME, Action.WOULD_DISCARD_BACKUP, Action.BACKUP_DISCARDED)
        return HashResult(
            shown(pair.key),
            action,
            pair.entries,
            content.value if content else None,
            kept_as=None if kept_as is None else shown(kept_as),
            note=pair.found.note if pair.found and tells else "",
        )
