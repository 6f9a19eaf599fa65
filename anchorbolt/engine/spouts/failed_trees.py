"""What a wave's report says of the messages whose tuple trees failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.util.messages import bounded

if TYPE_CHECKING:
    from anchorbolt.acker.in_flight import Emitter, Settlement
    from anchorbolt.checkpoint.ports import TaskKey

# Bounds of a report: a run keeps the latest 1000.
_MOST_TREES = 100
_MOST_CHARACTERS = 300


class FailedTree(NamedTuple):
    """A message of a rich spout for which `fail` is called, because its tuple tree failed or timed out."""

    spout: str  # its id
    msg_id: Any
    component: str  # the bolt that failed a tuple of the tree; of a time-out, what held one last; empty if unknown
    task_index: int  # of its task; -1 if unknown
    reason: str  # at most 300 characters; the log has the whole text
    timed_out: bool = False


def failed_trees(settlements: Mapping[Emitter, Settlement]) -> tuple[FailedTree, ...]:
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


def timed_out(settlements: Mapping[Emitter, Settlement]) -> Mapping[tuple[str, TaskKey], int]:
    """Return how many messages of a wave timed out, by their spout and the task that held a tuple of them last.

    The task is `("", -1)` if it is not known.
    """
    return Counter(
        (spout, message.holder or ("", -1))
        for (spout, _), settlement in settlements.items()
        for message in settlement.failed
        if message.timed_out
    )
