"""What is kept of a round that failed, for pages and the history."""

from __future__ import annotations

import time
from dataclasses import dataclass

from anchorbolt.errors import AnchorboltError
from anchorbolt.util.messages import bounded, reason_of

_MOST_REASON, _MOST_TRACEBACK = 1000, 4000  # characters


@dataclass(frozen=True)
class FailedRound:
    """A round of a wave that failed."""

    at: float  # when it failed, in seconds since 1970
    reason: str  # one line, at most 1,000 characters
    component: str  # that raised; empty if no code of the user did
    task_index: int  # of its task; -1 if no code of the user raised
    traceback: str  # of that code, at most about 4,000 characters; empty if no code of the user raised

    @classmethod
    def of(cls, error: AnchorboltError) -> FailedRound:
        """Return what is kept of a round that failed with this error now."""
        traceback = getattr(error, "user_traceback", "")
        component, index = getattr(error, "component", None), getattr(error, "task_index", None)
        return cls(
            time.time(),
            reason_of(error)[:_MOST_REASON],
            component or "",
            -1 if index is None else index,
            bounded(traceback, _MOST_TRACEBACK),
        )
