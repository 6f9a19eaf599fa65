"""A store outside the topology, without transactions or fences: every read and write is a step, and may fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.world import World


class OutsideStore:
    """See `anchorbolt.transactional.BackingMap`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.values: dict[Any, Any] = {}

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        self._world.step(f"reads {list(keys)} outside")
        return [self.values.get(key) for key in keys]

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self._world.step(f"writes {list(keys)} outside")
        written = len(keys)
        fails = self._world.strikes(0.02)
        if fails:
            written = self._world.choices.pick(len(keys) + 1)
            self._world.say(f"writes only {written} outside, and fails")
        self.values.update(zip(keys[:written], values[:written], strict=True))
        if fails:
            raise OSError("simulated: the outside store does not answer")
        self._world.step(f"has written {list(keys)} outside")
