"""How many messages of each task of a rich spout a wave has acked and failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from anchorbolt.acker.in_flight import Emitter, Settlement
    from anchorbolt.checkpoint.ports import TaskKey


class TaskMessages(NamedTuple):
    """The messages of one task."""

    acked: float = 0  # without dead letters
    failed: float = 0
    complete_ms: float = 0.0  # from the emits of its acked messages to their acks, added up
    completed: float = 0  # acked messages that were timed


def messages_by_task(
    settlements: Mapping[Emitter, Settlement], buried: Mapping[Emitter, int], now: float
) -> Mapping[TaskKey, TaskMessages]:
    """Return what a wave settles, by the task that has emitted it. `buried` are the dead letters among the acked ones.

    A message that an earlier driver has emitted belongs to no task of this one.
    """
    return {
        (spout, index): TaskMessages(
            len(settlement.acked) - buried.get((spout, index), 0),
            len(settlement.failed),
            sum((now - at) * 1000 * messages for at, messages in settlement.emitted_at),
            sum(messages for _, messages in settlement.emitted_at),
        )
        for (spout, index), settlement in settlements.items()
        if index is not None
    }
