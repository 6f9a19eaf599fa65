"""Which messages of rich spouts a wave has acked and failed: by spout, and by task. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from anchorbolt.metrics.distribution import Distribution

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


def complete_ms(settlements: Mapping[Emitter, Settlement], now: float) -> Mapping[str, Distribution]:
    """Return by spout the times from the emits of its acked messages to their acks."""
    found: defaultdict[str, Distribution] = defaultdict(Distribution)
    for (component, _), settlement in settlements.items():
        for at, messages in settlement.emitted_at:
            found[component].add((now - at) * 1000, messages)
    return found


def acked_of(settlements: Mapping[Emitter, Settlement]) -> Counter[Emitter]:
    """Return how many messages are acked, by the spout and task that has emitted them."""
    return Counter({emitter: len(settlement.acked) for emitter, settlement in settlements.items()})


def by_spout(settlements: Mapping[Emitter, Settlement], count: Callable[[Settlement], int]) -> Counter[str]:
    """Add up what `count` returns, by spout."""
    counts = Counter[str]()
    for (component, _), settlement in settlements.items():
        counts[component] += count(settlement)
    return counts
