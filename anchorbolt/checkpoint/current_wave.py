"""The wave that the coordinator runs now, and its failed rounds: for pages, metrics and the history."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from anchorbolt.errors import AnchorboltError
from anchorbolt.util.messages import bounded, reason_of

_MOST_REASON, _MOST_TRACEBACK = 1000, 4000  # characters


@dataclass(frozen=True)
class FailedRound:
    """A round of a wave that failed."""

    at: float  # when it failed, in seconds since 1970
    reason: str  # one line, at most 1,000 characters
    component: str  # that raised; empty if no user code raised
    task_index: int  # of its task; -1 if no user code raised
    traceback: str  # of that code, at most about 4,000 characters; empty if no user code raised

    @classmethod
    def of(cls, error: AnchorboltError) -> FailedRound:
        """Return the record of a round that has just failed with this error."""
        traceback = getattr(error, "user_traceback", "")
        component, index = getattr(error, "component", None), getattr(error, "task_index", None)
        return cls(
            time.time(),
            reason_of(error)[:_MOST_REASON],
            component or "",
            -1 if index is None else index,
            bounded(traceback, _MOST_TRACEBACK),
        )


@dataclass(frozen=True)
class CurrentWave:
    """A wave that has begun and has not committed yet."""

    txid: int
    phase: str = "compute"  # includes the tasks' `prepare`; then `decide`, then `commit`
    round: int = 1
    failure: str = ""  # why the round before failed, in one line; empty in the first round
    failures: tuple[FailedRound, ...] = ()  # its first ten rounds that failed
    began: float = field(default_factory=time.monotonic)
