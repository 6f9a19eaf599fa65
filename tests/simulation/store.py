"""The store of a simulation: the memory provider's, with every call a step at which something may go wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from anchorbolt.state_backends.contract import (
    Fence,
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedSlice,
    StateProvider,
    StateStorage,
)
from anchorbolt.state_backends.memory import MemoryStateProvider, _Namespace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

T = TypeVar("T")

Snapshot = dict[str, _Namespace]
"""A copy of everything in a store."""


class SimulatedProvider(StateProvider):
    """Memory, seen through a network that loses requests and replies and repeats them."""

    shared_by_machines = True

    def __init__(self, world: World) -> None:
        self._world = world
        self.memory = MemoryStateProvider()

    @property
    def contents(self) -> dict[str, _Namespace]:
        """The namespaces themselves."""
        return self.memory._namespaces

    def snapshot(self) -> Snapshot:
        """Copy everything."""
        return {name: _copied(namespace) for name, namespace in self.contents.items()}

    def restore(self, snapshot: Snapshot, namespace: str | None = None) -> None:
        """Put a copy back: all of it, or one namespace."""
        names = [*self.contents, *snapshot] if namespace is None else [namespace]
        for name in names:
            self.contents.pop(name, None)
            if name in snapshot:
                self.contents[name] = _copied(snapshot[name])

    def open(self, namespace: str) -> StateStorage:
        return _SimulatedStorage(self._world, self.memory.open(namespace))

    def namespaces(self, prefix: str = "") -> list[str]:
        return list(self.memory.namespaces(prefix))

    def describe(self) -> str:
        return "a simulated store"


def _copied(namespace: _Namespace) -> _Namespace:
    updates = {attempt: dict(items) for attempt, items in namespace.updates.items()}
    return _Namespace(namespace.metadata, dict(namespace.entries), dict(namespace.records), updates)


class _SimulatedStorage(StateStorage):
    def __init__(self, world: World, storage: StateStorage) -> None:
        self._world = world
        self._storage = storage
        self.namespace = storage.namespace

    def _call(self, name: str, call: Callable[[], T], fence: Fence | None = None, told: Any = "") -> T:
        return self._world.call_store(self.namespace, name, call, fence, told)

    def head(self) -> NamespaceHead:
        return self._call("head", self._storage.head)

    def claim(self) -> Fence:
        return self._call("claim", self._storage.claim)

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        return self._call("raise_fence", lambda: self._storage.raise_fence(fence), fence)

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        return self._call("get_many", lambda: self._storage.get_many(keys, attempt, at))

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        return iter(self._call("scan", lambda: list(self._storage.scan(attempt, page_size, at))))

    def stage(self, staged: StagedSlice) -> Seal:
        told = (staged.txid, staged.attempt[-4:], "over", staged.base)
        return self._call("stage", lambda: self._storage.stage(staged), staged.fence, told)

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        self._call("seal", lambda: self._storage.seal(fence, attempt, seal), fence, attempt[-4:])

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        self._call("commit", lambda: self._storage.commit(fence, txid, attempt), fence, (txid, attempt[-4:]))

    def rollback(self, fence: Fence) -> int:
        return self._call("rollback", lambda: self._storage.rollback(fence), fence)

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        self._call("write", lambda: self._storage.write(fence, items, codec), fence)

    def close(self) -> None:
        pass
