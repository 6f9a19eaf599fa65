"""Fences, and the scope of an attempt: who writes to a namespace, and for which wave. Plain data."""

from dataclasses import dataclass
from typing import NamedTuple

NOTHING_COMMITTED = -1
"""The txid of a namespace in which nothing has been committed yet."""


class Fence(NamedTuple):
    """The permission to write: fences are ordered, and a namespace's fence is never lowered."""

    generation: int  # a starting driver takes the next one (`StateStorage.claim`); the first is 1
    seq: int  # the driver counts it up for every round


NO_FENCE = Fence(0, 0)
"""The fence of a namespace that nobody has written to."""


@dataclass(frozen=True)
class AttemptScope:
    """The attempt that uses a state during one wave, and the committed state that the driver knows of."""

    fence: Fence
    txid: int
    attempt: str  # 32 hexadecimal digits
    committed: int = NOTHING_COMMITTED
    winner: str = ""  # the attempt that `committed` came from; empty if nothing is committed
