"""The wave that the checkpoint spout runs now, for pages and metrics."""

from dataclasses import dataclass, field
from time import monotonic


@dataclass(frozen=True)
class CurrentWave:
    """A wave that has begun and has not committed yet."""

    txid: int
    phase: str = "prepare"  # then `decide`, then `commit`
    round: int = 1
    failure: str = ""  # why the round before failed, in one line; empty in the first round
    began: float = field(default_factory=monotonic)
