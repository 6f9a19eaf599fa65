"""Compares a migrated namespace with its backups, restores the backups, or discards them."""

import contextlib
from contextlib import ExitStack, closing
from dataclasses import dataclass

from anchorbolt.errors import AnchorboltError, StateCorrupted, StateError
from anchorbolt.migration_tools.base64_to_binary.comparison import Comparison, compare, equal
from anchorbolt.migration_tools.base64_to_binary.conversion import Wrapper
from anchorbolt.migration_tools.base64_to_binary.names import (
    DROPPED,
    UNDONE_SUFFIX,
    backup_of,
    hashes_of,
    new_suffix,
    txid_of,
)
from anchorbolt.migration_tools.base64_to_binary.results import Action, HashResult
from anchorbolt.migration_tools.base64_to_binary.watches import Watches
from anchorbolt.migration_tools.progress import Progress
from anchorbolt.state_backends.redis.hashes import RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content


@dataclass(frozen=True)
class _Pair:
    """A hash that has a backup."""

    key: bytes
    exists: bool
    found: Comparison | None  # with the converted backup; None if the hash does not exist or equals the backup
    entries: int  # of the backup

    @property
    def changed(self) -> bool:
        """Whether the hash is neither the conversion of its backup nor equal to it."""
        return self.found is not None and not self.found.same


class BackupActions:
    """Verifies, restores or discards the backups of one namespace. Each method watches the keys that it reads.

    `content` is the format of the backups; None to recognise it.
    """

    def __init__(
        self,
        hashes: RedisHashes,
        namespace: bytes,
        progress: Progress,
        *,
        content: Content | None = None,
        dry_run: bool = False,
    ) -> None:
        self._hashes = hashes
        self._namespace = namespace
        self._progress = progress
        self._content = content
        self._dry_run = dry_run
        self._done: list[str] = []  # the transactions so far: in a cluster each hash may have one of its own

    def verify(self, wrapper: Wrapper | None = None) -> tuple[tuple[HashResult, ...], StateError | None]:
        """Compare each hash with its converted backup, in `wrapper` or else in either. Return the first difference."""
        with Watches(self._hashes, self._namespace) as watches:
            pairs = self._pairs(watches)
        results, error = [], None
        for pair in pairs:
            action, reason = self._judged(pair, wrapper)
            if reason:
                error = error or self._refusal(reason)
            results.append(self._result(pair, action, backup_of(pair.key)))
        return tuple(results), error

    def undo(self, *, keep_changed: bool) -> tuple[HashResult, ...]:
        """Rename each backup to its original hash and delete the converted copy.

        If a hash is not the conversion of its backup, keep it as `<ns>_undone` with `keep_changed`, else refuse.
        """
        with Watches(self._hashes, self._namespace) as watches:
            pairs = self._pairs(watches)
            if not keep_changed:
                self._check_prepared_is_there(pairs)
            for pair in pairs:
                if pair.changed:
                    self._check_may_be_put_aside(pair, keep_changed)
            if not self._dry_run:
                self._put_back(pairs, watches)
        action = Action.WOULD_PUT_BACK if self._dry_run else Action.PUT_BACK
        return tuple(self._result(pair, action, self._aside(pair) if pair.changed else None) for pair in pairs)

    def discard(self) -> tuple[HashResult, ...]:
        """Delete the backups, if each hash is the conversion of its backup. Refuse otherwise."""
        with Watches(self._hashes, self._namespace) as watches:
            pairs = self._pairs(watches)
            for pair in pairs:
                if pair.found is None or not pair.found.same:
                    raise self._refusal(
                        f"{self._difference(pair)}, so the backup is kept. If a topology has run since and the state "
                        f"is right, remove the backup with `redis-cli UNLINK '{shown(backup_of(pair.key))}'`"
                    )
            if not self._dry_run:
                for keys in watches.groups([pair.key for pair in pairs]):
                    self._remove_backups(keys, watches)
                    self._done.append(f"the backup of {shown(keys[0])} was discarded")
        action = Action.WOULD_DISCARD_BACKUP if self._dry_run else Action.BACKUP_DISCARDED
        return tuple(self._result(pair, action, None) for pair in pairs)

    def _pairs(self, watches: Watches) -> list[_Pair]:
        keys, txid = hashes_of(self._namespace), txid_of(self._namespace)
        types = self._hashes.types([*keys, *map(backup_of, keys), txid])
        for key, kind in types.items():
            if kind not in ("none", "hash"):
                raise self._refusal(f"{shown(key)} is a {kind}, not a hash: name a namespace of Storm's")
        pairs = []
        for key in keys:
            backup = backup_of(key)
            exists = watches.on(key).exists(key)
            if watches.on(backup).exists(backup):
                self._check_stays(key, watches)
                self._check_stays(backup, watches)
                entries = watches.on(backup).length(backup)
                found = self._compared(key, backup) if exists else None
                pairs.append(_Pair(key, exists, found, entries))
        is_empty = all(types[key] == "none" for key in keys) and types[txid] != "none"
        if not pairs and not is_empty:
            raise self._refusal(
                f"{self._hashes.address} has no {shown(backup_of(self._namespace))}: it was not migrated, or its "
                "backup has been discarded"
            )
        return pairs

    def _check_stays(self, key: bytes, watches: Watches) -> None:
        if watches.on(key).expires(key):
            raise self._refusal(f"{shown(key)} expires, and the state would expire with it: PERSIST it first")

    def _compared(self, key: bytes, backup: bytes) -> Comparison | None:
        found = compare(self._hashes, backup, key, self._progress, self._content)
        if not found.same and equal(self._hashes, backup, key, self._progress):
            return None
        return found

    def _judged(self, pair: _Pair, wrapper: Wrapper | None) -> tuple[Action, str]:
        """Compare a hash with its backup. The second item is the reason for an error, or an empty string."""
        if pair.found is None or not pair.found.same:
            action = Action.NOT_CONVERTED if pair.exists and pair.found is None else Action.DIFFERENT
            return action, f"{self._difference(pair)}. A topology that has run since causes such differences"
        if wrapper not in (None, pair.found.wrapper):
            return Action.DIFFERENT, (
                f"{shown(pair.key)} is what --wrapper {pair.found.wrapper.value} makes of its backup: undo it, and "
                "migrate again"
            )
        return Action.SAME, ""

    def _difference(self, pair: _Pair) -> str:
        key, backup = shown(pair.key), shown(backup_of(pair.key))
        if not pair.exists:
            return f"{key} is not there, but {backup} is"
        if pair.found is None:
            return f"{key} is equal to {backup}: it has not been converted"
        return f"{key} is not what {backup} converts to ({pair.found})"

    def _check_prepared_is_there(self, pairs: list[_Pair]) -> None:
        """Refuse if a prepared hash is missing beside a converted one: a topology has rolled it back or committed it.

        If it were restored, a topology would take it for prepared again. If no hash was converted, another tool has
        not finished, and the prepared hash is restored.
        """
        converted = [pair for pair in pairs if pair.key == self._namespace and pair.found is not None]
        for pair in pairs if converted else ():
            if not pair.exists:
                raise self._refusal(
                    f"{self._difference(pair)}, so it is not put back: a topology has run since, and has committed or "
                    "rolled back the prepared state. With --keep-changed it is put back anyway"
                )

    def _check_may_be_put_aside(self, pair: _Pair, keep_changed: bool) -> None:
        aside = self._aside(pair)
        if not keep_changed:
            raise self._refusal(
                f"{self._difference(pair)}, so it is not replaced: later writes would be lost. With "
                f"--keep-changed it is kept as {shown(aside)}"
            )
        if self._hashes.types([aside])[aside] != "none":
            raise self._refusal(f"{shown(aside)} exists already and is not overwritten: rename or remove it first")

    def _put_back(self, pairs: list[_Pair], watches: Watches) -> None:
        copies: list[bytes] = []
        suffix = new_suffix()
        by_key = {pair.key: pair for pair in pairs}
        try:
            if not watches.together:
                for pair in pairs:
                    copies.append(self._hashes.sibling(pair.key, suffix))
                    self._copy_back(pair, copies[-1])
            for keys in watches.groups(list(by_key)):
                connection = watches.on(keys[0])
                commands: list[tuple[str | bytes, ...]] = []
                for key in keys:
                    restored = backup_of(key) if watches.together else self._hashes.sibling(key, suffix)
                    if not watches.together:
                        connection.watch(restored)
                        if connection.length(restored) != by_key[key].entries:
                            raise self._changed(backup_of(key))
                    commands += self._commands(by_key[key], restored, suffix)
                if not connection.transaction(commands):
                    raise self._changed(*keys)
                if not watches.together:
                    self._remove_backups(keys, watches)
                    self._done.append(f"{shown(keys[0])} was put back")
        finally:
            if copies:
                with contextlib.suppress(AnchorboltError):
                    self._hashes.remove(copies)

    def _commands(self, pair: _Pair, restored: bytes, suffix: bytes) -> list[tuple[str | bytes, ...]]:
        """Return the commands that rename `restored` to the hash's name."""
        rename: tuple[str | bytes, ...] = ("RENAME", restored, pair.key)
        if not pair.exists:
            return [rename]
        if pair.changed:
            return [("RENAMENX", pair.key, self._aside(pair)), rename]
        dropped = self._hashes.sibling(pair.key, suffix + DROPPED)
        return [("RENAME", pair.key, dropped), rename, ("UNLINK", dropped)]

    def _copy_back(self, pair: _Pair, copy: bytes) -> None:
        backup = backup_of(pair.key)
        self._progress.begin(f"copying {shown(backup)} to {shown(pair.key)}", pair.entries)
        with ExitStack() as stack:
            reader = stack.enter_context(self._hashes.connection(backup))
            writer = stack.enter_context(self._hashes.connection(copy))
            same = True
            for page in stack.enter_context(closing(reader.pages(backup))):
                same = writer.confirm() and same
                writer.write(copy, page)
                self._progress.advance(len(page) // 2)
            if not (writer.confirm() and same):
                raise StateCorrupted(
                    f"{self._hashes.address} returned other data than was written to {shown(copy)}. Check the "
                    "server's log and memory before you run it again",
                    namespace=shown(self._namespace),
                )

    def _remove_backups(self, keys: list[bytes], watches: Watches) -> None:
        backups = [backup_of(key) for key in keys]
        # The keys are watched: if a hash or a backup has changed since the comparison, nothing is removed.
        if not watches.on(backups[0]).transaction([("UNLINK", backup) for backup in backups]):
            raise self._changed(*backups)

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

    def _changed(self, *keys: bytes) -> StateError:
        before = f", after {' and '.join(self._done)}" if self._done else ""
        return self._refusal(
            f"{' or '.join(map(shown, keys))} was written to meanwhile, so it was left as it is{before}. Stop the "
            "topology that owns the state, and run this again"
        )

    def _refusal(self, message: str) -> StateError:
        return StateError(message, namespace=shown(self._namespace))
