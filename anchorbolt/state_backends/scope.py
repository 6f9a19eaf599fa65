"""Who writes to a namespace, and for which attempt: fences and the scope of an attempt. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NOTHING_COMMITTED = -1
"""The txid of a namespace in which nothing has been committed yet."""


class Fence(NamedTuple):
    """Who is allowed to write: ordered, and never lowered.

    Attributes:
        generation: Taken once by each starting driver (`StateStorage.claim`), counted from 1.
        seq: Counted up by that driver for every round.
    """

    generation: int
    seq: int


NO_FENCE = Fence(0, 0)
"""The fence of a namespace that nobody has written to."""


@dataclass(frozen=True)
class AttemptScope:
    """On whose behalf a state is used during one wave.

    Attributes:
        fence: The wave's fence.
        txid: The wave's transaction.
        attempt: Id of this attempt of the task, 32 hexadecimal digits.
        committed: The txid that the driver knows to be committed in this namespace.
        winner: The attempt which that came from; empty if nothing is committed.
    """

    fence: Fence
    txid: int
    attempt: str
    committed: int = NOTHING_COMMITTED
    winner: str = ""
