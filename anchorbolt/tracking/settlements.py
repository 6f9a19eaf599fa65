"""The acks and fails of messages after a wave has committed, and their figures in the wave's report. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.spouts.intake import Chunk
from anchorbolt.util.messages import bounded

# Limits for one report: a run keeps the latest 1000 reports.
_MOST_TREES = 100
_MOST_CHARACTERS = 300


SpoutTask = tuple[str, int | None]
"""Id of a spout and index of its task; no index for a tree that an earlier run has opened."""


class FailedMessage(NamedTuple):
    """A message whose tree failed or timed out."""

    msg_id: Any
    component: str  # the bolt that failed a tuple of the tree; empty for a time-out
    task_index: int
    reason: str
    chunk: Chunk | None = None  # the chunk of the wave's intake with the message; None for an earlier wave's message
    position: int = 0  # in the chunk
    is_hopeless: bool = False  # must not be tried again
    holder: tuple[str, int] | None = None  # for a time-out: the last task that held a tuple of the tree, if known
    timed_out: bool = False

    def __str__(self) -> str:
        by = f"bolt {self.component!r}, task {self.task_index}: " if self.component else ""
        return f"{by}{self.reason}"


@dataclass
class Settlement:
    """The acks and fails of one spout task's messages, or of an earlier run's trees, after a wave has committed."""

    acked: list[Any] = field(default_factory=list)  # message ids
    failed: list[FailedMessage] = field(default_factory=list)
    emitted_at: list[tuple[float, int]] = field(default_factory=list)  # emit times, and numbers of acked messages


class FailedTree(NamedTuple):
    """A message of a rich spout for which `fail` is called, because its tuple tree failed or timed out."""

    spout: str  # its id
    msg_id: Any
    component: str  # the bolt that failed a tuple of the tree; for a time-out, its last holder; empty if unknown
    task_index: int  # of its task; -1 if unknown
    reason: str  # at most 300 characters; the log has the whole text
    timed_out: bool = False


def failed_trees(settlements: Mapping[SpoutTask, Settlement]) -> tuple[FailedTree, ...]:
    """Return the first 100 messages of a wave that failed."""
    failed = ((spout, message) for (spout, _), settlement in settlements.items() for message in settlement.failed)
    return tuple(
        FailedTree(
            spout,
            message.msg_id,
            *(message.holder or (message.component, message.task_index)),
            bounded(message.reason, _MOST_CHARACTERS),
            message.timed_out,
        )
        for spout, message in islice(failed, _MOST_TREES)
    )


def timed_out(settlements: Mapping[SpoutTask, Settlement]) -> Mapping[tuple[str, TaskKey], int]:
    """Return how many messages of a wave timed out, by their spout and the last task that held one of their tuples.

    The task is `("", -1)` if unknown.
    """
    return Counter(
        (spout, message.holder or ("", -1))
        for (spout, _), settlement in settlements.items()
        for message in settlement.failed
        if message.timed_out
    )


class TaskMessages(NamedTuple):
    """The messages of one task."""

    acked: float = 0  # without dead letters
    failed: float = 0
    complete_ms: float = 0.0  # sum of the times from emit to ack of its acked messages
    completed: float = 0  # acked messages that were timed


def messages_by_task(
    settlements: Mapping[SpoutTask, Settlement], buried: Mapping[SpoutTask, int], now: float
) -> Mapping[TaskKey, TaskMessages]:
    """Return the settled messages of a wave, by the task that emitted them. `buried` counts the acked dead letters.

    Leaves out messages that an earlier driver emitted: they belong to no task of this driver.
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


def complete_ms(settlements: Mapping[SpoutTask, Settlement], now: float) -> Mapping[str, Distribution]:
    """Return the times from emit to ack of the acked messages, by spout."""
    found: defaultdict[str, Distribution] = defaultdict(Distribution)
    for (component, _), settlement in settlements.items():
        for at, messages in settlement.emitted_at:
            found[component].add((now - at) * 1000, messages)
    return found


def acked_of(settlements: Mapping[SpoutTask, Settlement]) -> Counter[SpoutTask]:
    """Return the number of acked messages, by the spout and task that emitted them."""
    return Counter({emitter: len(settlement.acked) for emitter, settlement in settlements.items()})


def by_spout(settlements: Mapping[SpoutTask, Settlement], count: Callable[[Settlement], int]) -> Counter[str]:
    """Add up what `count` returns, by spout."""
    counts = Counter[str]()
    for (component, _), settlement in settlements.items():
        counts[component] += count(settlement)
    return counts


def report_of(
    settlements: Mapping[SpoutTask, Settlement], buried: Mapping[SpoutTask, int], now: float
) -> dict[str, Any]:
    """Return the fields of a wave's report about its messages."""
    acked = by_spout(settlements, lambda settlement: len(settlement.acked))
    for (component, _), number in buried.items():
        acked[component] -= number
    return {
        "messages_acked": acked,
        "messages_failed": by_spout(settlements, lambda settlement: len(settlement.failed)),
        "messages_by_task": messages_by_task(settlements, buried, now),
        "messages_timed_out": timed_out(settlements),
        "complete_ms": complete_ms(settlements, now),
        "failures": failed_trees(settlements),
    }
