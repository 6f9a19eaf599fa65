"""The store of a simulation: the memory provider's, with every call a step at which something may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider, _Namespace

if TYPE_CHECKING:
    from tests.simulation.world import World

Snapshot = dict[str, _Namespace]
"""A copy of everything in a store."""


class SimulatedProvider(MemoryStateProvider):
    """Memory, seen through a network that loses requests and replies and repeats them."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.contents = self._namespaces

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

    def open(self, namespace: str) -> Any:
        return _SimulatedStorage(self._world, super().open(namespace))


def _copied(namespace: _Namespace) -> _Namespace:
    updates = {attempt: dict(items) for attempt, items in namespace.updates.items()}
    return _Namespace(namespace.metadata, dict(namespace.entries), dict(namespace.records), updates)


class _SimulatedStorage:
    """A storage, each call of which goes through the world."""

    def __init__(self, world: World, storage: StateStorage) -> None:
        self._world = world
        self._storage = storage
        self.namespace, self.limits = storage.namespace, storage.limits

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._storage, name)

        def call(*arguments: Any, **named: Any) -> Any:
            def answer() -> Any:
                answered = method(*arguments, **named)
                return list(answered) if name == "scan" else answered

            told = [*arguments, *named.values()]
            if name == "stage":
                [staged] = arguments
                told = [staged.fence, staged.txid, staged.attempt, staged.base]
            fence = next((value for value in told if isinstance(value, Fence)), None)
            shown = [value[-4:] if isinstance(value, str) else value for value in told if isinstance(value, (int, str))]
            return self._world.call_store(self.namespace, name, answer, fence, shown)

        return call

    def close(self) -> None:
        pass
