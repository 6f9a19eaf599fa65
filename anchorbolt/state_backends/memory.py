"""State in the memory of one process: the reference for tests. Never durable."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import (
    Fence,
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedSlice,
    StateProvider,
    StateStorage,
)
from anchorbolt.state_backends.rules import AttemptRecord, Metadata


@dataclass
class _Namespace:
    metadata: Metadata = field(default_factory=Metadata)
    entries: dict[bytes, bytes] = field(default_factory=dict)
    records: dict[str, AttemptRecord] = field(default_factory=dict)
    updates: dict[str, dict[bytes, bytes | None]] = field(default_factory=dict)
    size: int = 0  # bytes of the keys and values of `entries`

    def put(self, key: bytes, value: bytes | None) -> None:
        """Replace an entry, or remove it if the value is None."""
        former = self.entries.pop(key, None)
        if former is not None:
            self.size -= len(key) + len(former)
        if value is not None:
            self.entries[key] = value
            self.size += len(key) + len(value)

    def drop(self, attempt: str) -> None:
        del self.records[attempt]
        del self.updates[attempt]


class MemoryStateProvider(StateProvider):
    """Keeps all namespaces in this object, until it is deleted. Thread-safe.

    Pickling it raises `ConfigError`: a copy in another process would be another store.
    """

    shared_by_processes = False
    shared_by_machines = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._namespaces: dict[str, _Namespace] = {}

    def open(self, namespace: str) -> MemoryStateStorage:
        rules.check_namespace(namespace)
        return MemoryStateStorage(self._lock, self._namespaces, namespace)

    def namespaces(self, prefix: str = "") -> list[str]:
        with self._lock:
            return [namespace for namespace in self._namespaces if namespace.startswith(prefix)]

    def describe(self) -> str:
        return "the memory of this process"

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "the memory state provider lives in one process and cannot be sent to another one: "
            "set topology.state.provider to sqlite or redis",
            key="topology.state.provider",
        )


class MemoryStateStorage(StateStorage):
    """One namespace of a `MemoryStateProvider`."""

    def __init__(self, lock: threading.RLock, namespaces: dict[str, _Namespace], namespace: str) -> None:
        self.namespace = namespace
        self._lock = lock
        self._namespaces = namespaces

    def head(self) -> NamespaceHead:
        with self._lock:
            store = self._read()
            return rules.head_of(store.metadata, store.records)

    def claim(self, seq: int = 0) -> Fence:
        with self._lock:
            return self._write(Fence(self._read().metadata.fence.generation + 1, seq)).metadata.fence

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        with self._lock:
            rules.check_fence(self.namespace, self._read().metadata, fence)
            self._write(fence)
            return self.head()

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        with self._lock:
            store = self._read_at(attempt, at)
            values = [store.entries.get(key) for key in keys]
            if updates := store.updates.get(attempt or ""):
                values = [updates.get(key, value) for key, value in zip(keys, values, strict=True)]
            return values

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        with self._lock:
            store = self._read_at(attempt, at)
            merged = {**store.entries, **store.updates.get(attempt or "", {})}
        entries = [(key, value) for key, value in merged.items() if value is not None]
        for start in range(0, len(entries), page_size):
            with self._lock:
                self._read_at(attempt, at)
            yield entries[start : start + page_size]

    def stage(self, staged: StagedSlice) -> Seal:
        with self._lock:
            store = self._read()
            known = store.records.get(staged.attempt)
            record = rules.next_record(self.namespace, store.metadata, known, staged)
            store = self._write(staged.fence, staged.codec)
            if known is None:
                for other in [a for a, each in store.records.items() if each.fence < staged.fence]:
                    store.drop(other)
            if record is not None:
                store.records[staged.attempt] = record
                store.updates.setdefault(staged.attempt, {}).update(staged.updates)
            known = store.records[staged.attempt]
            return Seal(known.slices, known.checksum)

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        with self._lock:
            store = self._read()
            record = rules.sealed_record(
                self.namespace, store.metadata, store.records.get(attempt), fence, attempt, seal
            )
            self._write(fence).records[attempt] = record

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        with self._lock:
            store = self._read()
            apply = rules.check_commit(self.namespace, store.metadata, store.records.get(attempt), fence, txid, attempt)
            store = self._write(fence)
            if not apply:
                return
            for key, value in store.updates[attempt].items():
                store.put(key, value)
            for staged in list(store.records):
                store.drop(staged)
            store.metadata = replace(store.metadata, committed=txid, winner=attempt)

    def rollback(self, fence: Fence) -> int:
        with self._lock:
            rules.check_rollback(self.namespace, self._read().metadata, fence)
            store = self._write(fence)
            dropped = list(store.records)
            for attempt in dropped:
                store.drop(attempt)
            return len(dropped)

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        with self._lock:
            rules.check_write(self.namespace, self._read().metadata, fence, codec)
            store = self._write(fence, codec)
            for key, value in items.items():
                store.put(key, value)

    def remove(self, fence: Fence) -> None:
        with self._lock:
            rules.check_fence(self.namespace, self._read().metadata, fence)
            self._namespaces.pop(self.namespace, None)

    def count(self) -> int:
        with self._lock:
            return len(self._read().entries)

    def size(self) -> int:
        with self._lock:
            return self._read().size

    def close(self) -> None:
        pass

    def _read(self) -> _Namespace:
        return self._namespaces.get(self.namespace) or _Namespace()

    def _read_at(self, attempt: str | None, at: ReadPosition | None) -> _Namespace:
        store = self._read()
        rules.check_reading(self.namespace, store.metadata, store.records.get(attempt or ""), attempt, at)
        return store

    def _write(self, fence: Fence, codec: str = "") -> _Namespace:
        store = self._namespaces.setdefault(self.namespace, _Namespace())
        store.metadata = replace(store.metadata, fence=fence, codec=store.metadata.codec or codec)
        return store
