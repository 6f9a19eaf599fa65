"""After a migration: compare a namespace with its backups, put these back, or remove them."""

from __future__ import annotations

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
from anchorbolt.migration_tools.base64_to_binary.watching import Watches
from anchorbolt.migration_tools.progress import Progress
from anchorbolt.state_backends.redis.hashes import HashConnection, RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content


@dataclass(frozen=True)
class _Pair:
    """A hash that has a backup.

    Attributes:
        key: Its name.
        exists: Whether it is there itself.
        found: How it differs from the conversion of the backup; None where it is not there, or equals the backup.
        entries: How many entries the backup has.
    """

    key: bytes
    exists: bool
    found: Comparison | None
    entries: int


class BackupActions:
    """What can be done with the backups of one namespace. Each method looks first, and watches what it looked at."""

    def __init__(
        self,
        hashes: RedisHashes,
        namespace: bytes,
        progress: Progress,
        *,
        content: Content | None = None,
        dry_run: bool = False,
    ) -> None:
        """Begin with a namespace.

        Args:
            hashes: Where it is.
            namespace: Its name.
            progress: Told of each page.
            content: What the backups hold; None means to find out.
            dry_run: Whether to do all but write.
        """
        self._hashes = hashes
        self._namespace = namespace
        self._progress = progress
        self._content = content
        self._dry_run = dry_run
        self._done: list[str] = []  # in a cluster, where each hash has a transaction of its own

    def verify(self, wrapper: Wrapper | None = None) -> tuple[tuple[HashResult, ...], StateError | None]:
        """Compare each hash with what its backup converts to. The error says what differs first.

        Args:
            wrapper: What its values have to be wrapped in; None for either.

        Raises:
            StateError: There is no backup.
        """
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
        """Put the backups back under their hashes' names, and remove the conversions, of which they are.

        Args:
            keep_changed: Whether to put a hash aside, as `<ns>_undone`, that is not the conversion of its backup;
                otherwise that is refused.

        Raises:
            StateError: There is no backup, or it was refused.
        """
        with Watches(self._hashes, self._namespace) as watches:
            pairs = self._pairs(watches)
            if not keep_changed:
                self._check_prepared_is_there(pairs)
            for pair in pairs:
                if pair.found is not None and not pair.found.same:
                    self._check_may_be_put_aside(pair, keep_changed)
            if not self._dry_run:
                self._put_back(pairs, watches)
        action = Action.WOULD_PUT_BACK if self._dry_run else Action.PUT_BACK
        return tuple(
            self._result(pair, action, self._aside(pair) if _is_put_aside(pair) else None) for pair in pairs
        )

    def discard(self) -> tuple[HashResult, ...]:
        """Remove the backups, if each hash is what its backup converts to.

        Raises:
            StateError: There is no backup, or it was refused.
        """
        with Watches(self._hashes, self._namespace) as watches:
            pairs = self._pairs(watches)
            for pair in pairs:
                if pair.found is None or not pair.found.same:
                    raise self._refusal(
                        f"{self._difference(pair)}, so the backup is kept. If a topology has run since and the state "
                        f"is right, remove it with `redis-cli UNLINK '{shown(backup_of(pair.key))}'`"
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
            raise self._refusal(
                f"{shown(key)} expires, so that the state would be gone after a while: PERSIST it first"
            )

    def _compared(self, key: bytes, backup: bytes) -> Comparison | None:
        found = compare(self._hashes, backup, key, self._progress, self._content)
        if not found.same and equal(self._hashes, backup, key, self._progress):
            return None
        return found

    def _judged(self, pair: _Pair, wrapper: Wrapper | None) -> tuple[Action, str]:
        """Return how a hash stands to its backup, and why it should not; empty where it should."""
        if pair.found is None or not pair.found.same:
            action = Action.NOT_CONVERTED if pair.exists and pair.found is None else Action.DIFFERENT
            return action, f"{self._difference(pair)}. If a topology has run since, it is its work"
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
        """Refuse where what was prepared is gone from beside a conversion: a topology rolled it back, or committed it.

        Put back, it would be taken for prepared again. Where nothing was converted, another tool was broken off.
        """
        converted = [pair for pair in pairs if pair.key == self._namespace and pair.found is not None]
        for pair in pairs if converted else ():
            if not pair.exists:
                raise self._refusal(
                    f"{self._difference(pair)}, so it is not put back: a topology has run since, and committed what "
                    "was prepared, or rolled it back. With --keep-changed it is put back all the same"
                )

    def _check_may_be_put_aside(self, pair: _Pair, keep_changed: bool) -> None:
        aside = self._aside(pair)
        if not keep_changed:
            raise self._refusal(
                f"{self._difference(pair)}, so it is not replaced: what was written since would be lost. With "
                f"--keep-changed it is kept as {shown(aside)}"
            )
        if self._hashes.types([aside])[aside] != "none":
            raise self._refusal(
                f"{shown(aside)} exists already, and is not overwritten: rename it or remove it first"
            )

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
                watching = watches.on(keys[0])
                commands: list[tuple[str | bytes, ...]] = []
                for key in keys:
                    come_back = backup_of(key) if watches.together else self._hashes.sibling(key, suffix)
                    if not watches.together:
                        watching.watch(come_back)
                        self._check_copy(by_key[key], watching, come_back)
                    commands += self._commands(by_key[key], come_back, suffix)
                if not watching.transaction(commands):
                    raise self._changed(*keys)
                if not watches.together:
                    self._remove_backups(keys, watches)
                    self._done.append(f"{shown(keys[0])} was put back")
        finally:
            if copies:
                with contextlib.suppress(AnchorboltError):
                    self._hashes.remove(copies)

    def _commands(self, pair: _Pair, come_back: bytes, suffix: bytes) -> list[tuple[str | bytes, ...]]:
        """Return what puts one hash back, whatever is there now."""
        if not pair.exists:
            return [("RENAME", come_back, pair.key)]
        if _is_put_aside(pair):
            return [("RENAMENX", pair.key, self._aside(pair)), ("RENAME", come_back, pair.key)]
        dropped = self._hashes.sibling(pair.key, suffix + DROPPED)
        return [("RENAME", pair.key, dropped), ("RENAME", come_back, pair.key), ("UNLINK", dropped)]

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
                    f"{self._hashes.address} gave something else back than what was written for {shown(copy)}. Look "
                    "into the server's log and memory before you run it again",
                    namespace=shown(self._namespace),
                )

    def _check_copy(self, pair: _Pair, watching: HashConnection, copy: bytes) -> None:
        if watching.length(copy) != pair.entries:
            raise self._changed(backup_of(pair.key))

    def _remove_backups(self, keys: list[bytes], watches: Watches) -> None:
        backups = [backup_of(key) for key in keys]
        # In a cluster one by one. What the conversion was compared with is still there, or nothing is removed.
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
            "topology whose state it is, and run this again"
        )

    def _refusal(self, message: str) -> StateError:
        return StateError(message, namespace=shown(self._namespace))


def _is_put_aside(pair: _Pair) -> bool:
    return pair.found is not None and not pair.found.same
