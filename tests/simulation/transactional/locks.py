"""Locks between the actors of a simulation: an actor that waits for one lets another actor run."""

from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.actors import Actor
    from tests.simulation.world import World


class ActorLock:
    """See `threading.RLock`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner: Actor | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = self._world.schedule.current
        while self._owner is not None and self._owner is not me:
            self._world.wait("waits for a lock")
        self._owner = me
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None


class ActorCondition:
    """See `threading.Condition`. Nobody has to be woken: who waits looks again after each turn of another actor."""

    def __init__(self, world: World, lock: ActorLock) -> None:
        self._world = world
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, traceback)

    def wait(self, timeout: float) -> None:
        self._lock.__exit__(None, None, None)
        try:
            self._world.wait("waits for a processing phase")
        finally:
            self._lock.__enter__()

    def notify_all(self) -> None:
        pass


def simulated_threading(world: World) -> SimpleNamespace:
    """Return what the tested code needs of the module `threading`."""
    return SimpleNamespace(RLock=lambda: ActorLock(world), Condition=lambda lock: ActorCondition(world, lock))
