"""One namespace in Redis, readable by Storm's conventions: five keys and one for each staged attempt.

| key | type | content |
|---|---|---|
| `<ns>` | hash | the committed data |
| `<ns>$txid` | hash | `commit` and `prepare`: the last committed and the last promoted txid, decimal, as in Storm |
| `<ns>$fence` | hash | `generation`, `seq`, `winner`, `codec`, `entries` and `promoted`, see below |
| `<ns>$attempts` | hash | attempt id to `v2 txid base generation seq slices checksum checksum_before sealed` |
| `<ns>$prepare$<attempt>` | hash | the staged slices of an attempt |
| `<ns>$prepare` | hash | the staged slices of a promoted winner, until all of them are applied |

`entries` is the number of entries in `<ns>`. Every script that writes entries sets it, and every script compares it
with the size of the hash, so that a deletion by another program is noticed. `promoted` is the attempt of a half-applied
commit.

A slice is stored packed (see `packed_updates`), under its number; a field for each update would take three times as
long. Before updates are read under their attempt, a script also unfolds them: `k<key>` holds `+<value>` or `-`, and
`unfolded` holds the number of unfolded slices and the size of the hash, so that a deleted field is noticed. A small
commit is one script. A large commit promotes the attempt first, and then applies it in steps; each step's script also
sets `applied`, the number of applied slices. So a commit can stop after any step and be resumed.

In a cluster `<ns>` is `{<namespace>}`: the braces put all keys of a namespace into one slot. While the cluster moves a
slot, the slot's keys may be on two servers. Every script names the same five keys, and the cluster runs a script only
on a server that has all five. `$prepare` exists only during a half-applied commit, whose scripts use no sixth key. So a
script runs completely or not at all, and the namespace is unavailable (`StateUnavailable`) until the slot has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from anchorbolt.errors import AnchorboltError, StateCorrupted, StateRegressed, StateUnavailable
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import (
    LEFT_AS_FOUND,
    NOTHING_COMMITTED,
    START_OVER,
    Fence,
    NamespaceHead,
    ReadPosition,
    Seal,
    SizeLimits,
    StagedSlice,
    StateStorage,
)
from anchorbolt.state_backends.redis import scripts
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.rules import AttemptRecord, Metadata

_KEYS_PER_CALL = 4096


class RedisStateStorage(StateStorage):
    """One namespace of a `RedisStateProvider` or a `RedisClusterStateProvider`."""

    def __init__(self, namespace: str, client: RedisClient, limits: SizeLimits) -> None:
        self.namespace = namespace
        self.limits = limits
        self._client: RedisClient | None = client
        self._root = root = client.address.root(namespace)
        self._keys = [root, *(f"{root}${name}" for name in ("prepare", "txid", "fence", "attempts"))]

    def head(self) -> NamespaceHead:
        return self._head(self._run(scripts.HEAD))

    def claim(self, seq: int = 0) -> Fence:
        """Raises `ConfigError` if the server may evict keys."""
        self._connected.refuse_eviction(self.namespace, self._root)
        return Fence(self._run(scripts.CLAIM, seq), seq)

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        reply = self._step(lambda data, _: rules.check_fence(self.namespace, data, fence), scripts.HEAD, *fence)
        return self._head(reply)

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        is_plain = attempt is None and at is None
        values: list[bytes | None] = []
        for start in range(0, len(keys) if is_plain else max(1, len(keys)), _KEYS_PER_CALL):
            part = keys[start : start + _KEYS_PER_CALL]
            if is_plain:
                # A command on one key is answered even while a cluster moves the others to another server.
                values += self._connected.command(self.namespace, "HMGET", self._root, *part)
            else:
                values += self._values(part, attempt, at)
        return values

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        for entries in self._pages("committed", page_size, attempt, at):
            keys = list(entries)
            values = entries.values() if attempt is None else self._values(keys, attempt, at)
            if page := _present(keys, values):
                yield page
        if attempt is None:
            return
        without_attempt = at and at._replace(staged=None)
        self._values((), attempt, at)  # unfolds all staged slices
        for fields in self._pages("staged", page_size, attempt, at):
            staged = {field[1:]: _update(update) for field, update in fields.items()}
            committed = dict(zip(staged, self._values(list(staged), None, without_attempt), strict=True))
            added = [key for key in staged if committed[key] is None]
            if page := _present(added, [staged[key] for key in added]):
                yield page

    def stage(self, staged: StagedSlice) -> Seal:
        rules.check_attempt(staged.attempt)
        reply = self._step(
            lambda data, record: rules.next_record(self.namespace, data, record, staged),
            scripts.STAGE,
            *(*staged.fence, staged.txid, staged.attempt, staged.base, staged.number, staged.checksum),
            *(staged.codec, staged.packed),
        )
        return Seal(int(reply[1]), int(reply[2]))

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        self._step(
            lambda data, record: rules.sealed_record(self.namespace, data, record, fence, attempt, seal),
            scripts.SEAL,
            *(*fence, attempt, *seal),
        )

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        """One round trip for up to 2,000 updates, and one for each further 2,000."""

        def check(data: Metadata, record: AttemptRecord | None) -> None:
            rules.check_commit(self.namespace, data, record, fence, txid, attempt)

        while self._step(check, scripts.COMMIT, *fence, txid, attempt)[0] == b"more":
            reach(FaultPoint.SLICE_APPLIED, txid=txid)

    def rollback(self, fence: Fence) -> int:
        reply = self._step(lambda data, _: rules.check_rollback(self.namespace, data, fence), scripts.ROLLBACK, *fence)
        return int(reply[1])

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        entries = (part for item in items.items() for part in item)
        self._step(
            lambda data, _: rules.check_write(self.namespace, data, fence, codec),
            scripts.WRITE,
            *(*fence, codec, *entries),
        )

    def remove(self, fence: Fence) -> None:
        self._step(lambda data, _: rules.check_fence(self.namespace, data, fence), scripts.REMOVE, *fence)

    def count(self) -> int:
        return int(self._connected.command(self.namespace, "HLEN", self._root))

    def size(self) -> int | None:
        """Redis estimates it from a few entries. None if the user may not run MEMORY USAGE."""
        try:
            return int(self._connected.command(self.namespace, "MEMORY USAGE", self._root) or 0)
        except StateUnavailable:
            raise
        except AnchorboltError:
            return None

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.release()

    @property
    def _connected(self) -> RedisClient:
        if self._client is None:
            raise ValueError(f"the storage of {self.namespace} is closed")
        return self._client

    def _run(self, script: str, *arguments: Any, directly: Callable[[Any], Any] | None = None) -> Any:
        return self._connected.run(self.namespace, script, self._keys, arguments, directly)

    def _step(self, check: Callable[[Metadata, AttemptRecord | None], object], script: str, *arguments: Any) -> Any:
        """Run a script that may refuse the step; `check` then raises the error of the rules."""
        reply = self._run(script, *arguments)
        if reply[0] == b"refused":
            check(self._metadata(reply), self._record(reply[3]))
            raise self._corrupted("$fence, $txid or $attempts")
        return reply

    def _values(self, keys: Sequence[bytes], attempt: str | None, at: ReadPosition | None) -> list[bytes | None]:
        """Read keys as `get_many` does, in one atomic step."""

        def directly(server: Any) -> list[Any]:
            # Without an attempt, a transaction reads the same as the script, in half the time for thousands of keys.
            with server.pipeline(transaction=True) as pipeline:
                pipeline.execute_command("HMGET", self._keys[3], *scripts.FENCE_FIELDS)
                pipeline.execute_command("HGET", self._keys[2], "commit")
                pipeline.execute_command("HLEN", self._root)
                if keys:
                    pipeline.execute_command("HMGET", self._root, *keys)
                fields, committed, length, *found = pipeline.execute()
            return [b"ok", [*fields, length], committed or b"-1", None, found, ()]

        reply: Any = [b"more"]
        while reply[0] == b"more":
            reply = self._run(scripts.READ, attempt or "", *keys, directly=directly if attempt is None else None)
        self._check_reading(reply, attempt, at)
        self._record(reply[3])
        values: list[bytes | None] = list(chain.from_iterable(reply[4]))
        for place, update in enumerate(chain.from_iterable(reply[5])):
            if update is not None:
                values[place] = _update(update)
        return values

    def _pages(
        self, which: str, page_size: int, attempt: str | None, at: ReadPosition | None
    ) -> Iterator[dict[bytes, bytes]]:
        """Yield the fields and values of the committed or the staged data, in pages of at most `page_size` entries."""
        plain = attempt is None and at is None  # as in `get_many`
        client = self._connected

        def command(cursor: int) -> tuple[Any, ...]:
            if plain:
                return ("HSCAN", self._root, cursor, "COUNT", page_size)
            return ("EVAL", scripts.PAGE, len(self._keys), *self._keys, attempt or "", which, page_size, cursor)

        def answer(reply: Any) -> tuple[int, list[dict[bytes, bytes]]]:
            if plain:
                return int(reply[0]), _paged(reply[1], page_size)
            self._check_reading(reply, attempt, at)
            return int(reply[4]), _paged(dict(zip(reply[5][::2], reply[5][1::2], strict=True)), page_size)

        cursor, pages = answer(client.command(self.namespace, *command(0)))
        if cursor == 0:  # Redis returns a small hash as a whole
            yield from pages
            return
        # A cursor is invalid after a restart of the server, and on a replica that took over: entries would be missing.
        # So all pages are read over one connection, and a scan that loses it fails.
        with client.single(self.namespace, self._root) as server:
            next_cursor: int | None = None
            while next_cursor != 0:
                next_cursor, pages = answer(client.once(server, self.namespace, *command(next_cursor or 0)))
                yield from pages

    def _check_reading(self, reply: Sequence[Any], attempt: str | None, at: ReadPosition | None) -> None:
        if at is not None:
            rules.check_reading(self.namespace, self._metadata(reply), self._record(reply[3]), attempt, at)

    def _head(self, reply: Sequence[Any]) -> NamespaceHead:
        records = {}
        for attempt, packed in zip(reply[3][::2], reply[3][1::2], strict=True):
            if record := self._record(packed):
                records[attempt.decode("ascii", "replace")] = record
        return rules.head_of(self._metadata(reply), records)

    def _metadata(self, reply: Sequence[Any]) -> Metadata:
        """Return the metadata of a reply. Refuse a namespace from which another program has removed entries."""
        *fields, found = reply[1]
        try:
            generation, seq, winner, codec, promoted, counted = ((part or b"").decode() for part in fields)
            fence, entries = Fence(int(generation or 0), int(seq or 0)), int(counted or 0)
            metadata = Metadata(fence, int(reply[2]), winner, codec, promoted)
        except ValueError as error:
            raise self._corrupted("$fence or $txid") from error
        is_committed = metadata.committed != NOTHING_COMMITTED
        if (is_committed or found) and not all((generation, seq, codec, counted, winner or not is_committed)):
            raise StateCorrupted(
                f"{self.namespace}: the key {self._root}$fence in Redis is missing or incomplete. Another program has "
                "removed it, or an older version of Anchorbolt wrote the namespace, or Storm did (anchorbolt state "
                f"scan --codec storm-kryo shows Storm's entries). {START_OVER}",
                namespace=self.namespace,
            )
        if found != entries:
            raise StateRegressed(
                f"{self.namespace} lost data or was changed by another program: expected {entries:,} entries in the "
                f"hash {self._root!r} in Redis, found {found:,}. {LEFT_AS_FOUND} Find out which program removes "
                "keys, restore the store and the checkpoint location from backups of one moment, and start again.",
                namespace=self.namespace,
                expected=f"{entries} entries",
                found=f"{found} entries",
            )
        return metadata

    def _record(self, packed: bytes | None) -> AttemptRecord | None:
        if packed is None:
            return None
        version, *numbers = packed.split(b" ")
        try:
            if version != b"v2":
                raise ValueError(f"a record of another version of Anchorbolt, or a damaged one: {packed[:40]!r}")
            txid, base, generation, seq, slices, checksum, before, sealed = map(int, numbers)
        except ValueError as error:
            raise self._corrupted("$attempts") from error
        return AttemptRecord(txid, base, Fence(generation, seq), slices, checksum, before, sealed == 1)

    def _corrupted(self, suffix: str) -> StateCorrupted:
        return StateCorrupted(
            f"{self.namespace}{suffix} in Redis is damaged, or from another version of Anchorbolt. {START_OVER}",
            namespace=self.namespace,
        )


def _paged(found: Mapping[bytes, bytes], page_size: int) -> list[dict[bytes, bytes]]:
    entries = list(found.items())
    return [dict(entries[start : start + page_size]) for start in range(0, len(entries), page_size)]


def _update(unfolded: bytes) -> bytes | None:
    return unfolded[1:] if unfolded.startswith(b"+") else None


def _present(keys: Sequence[bytes], values: Iterable[bytes | None]) -> list[tuple[bytes, bytes]]:
    return [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
