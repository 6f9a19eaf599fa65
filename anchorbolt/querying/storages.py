"""Storages for the threads of a server: each is used by one thread at a time, and used again by the next."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from anchorbolt.errors import StateError
from anchorbolt.state_backends.contract import StateProvider, StateStorage


class StoragePool:
    """Opens namespaces. Thread-safe, although a storage is not."""

    def __init__(self, provider: StateProvider) -> None:
        self._provider = provider
        self._lock = threading.Lock()
        self._free: defaultdict[str, list[StateStorage]] = defaultdict(list)
        self._is_closed = False

    @contextmanager
    def borrowed(self, namespace: str) -> Iterator[StateStorage]:
        """Lend a storage to this thread. It is closed if the block raises.

        Raises `StateError` if the pool is closed.
        """
        with self._lock:
            if self._is_closed:
                raise StateError("the state is closed. Open it again with open_state.", namespace=namespace)
            storage = self._free[namespace].pop() if self._free[namespace] else None
        if storage is None:
            storage = self._provider.open(namespace)
        is_kept = False
        try:
            yield storage
            with self._lock:
                is_kept = not self._is_closed
                if is_kept:
                    self._free[namespace].append(storage)
        finally:
            if not is_kept:
                storage.close()

    def close(self) -> None:
        """Close the storages that are not lent; the others are closed when their threads return them."""
        with self._lock:
            self._is_closed = True
            storages = [storage for free in self._free.values() for storage in free]
            self._free.clear()
        for storage in storages:
            storage.close()
