"""The wave that the checkpoint spout runs now, for pages and metrics."""

from dataclasses import dataclass, field
from time import monotonic

from anchorbolt.checkpoint.failed_round import FailedRound


@dataclass(frozen=True)
class CurrentWave:
    """A wave that has begun and has not committed yet."""

    txid: int
    phase: str = "prepare"  # then `decide`, then `commit`
    round: int = 1
    failure: str = ""  # why the round before failed, in one line; empty in the first round
    failures: tuple[FailedRound, ...] = ()  # its first ten rounds that failed
    began: float = field(default_factory=monotonic)
