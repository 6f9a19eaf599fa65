"""Counts the losses of Spark or the network in the rounds of one wave, apart from failures of its batch.

A loss costs time, but no try of the batch. But a tuple may also kill each executor that runs it. So a wave's patience
with losses is limited: after more than `least` losses, and `patience_s` seconds since the first, the next loss counts
as a try of the batch.
"""

import logging
from time import monotonic, sleep

from anchorbolt.errors import InfrastructureLost
from anchorbolt.util.messages import fields_of, reason_of

_log = logging.getLogger("anchorbolt.checkpoint")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Losses:
    """The losses of one wave, or of one call of its hooks."""

    def __init__(self, patience_s: float, least: int) -> None:
        self.number = 0
        self.is_used_up = False  # whether from now on a loss counts as a try of the batch
        self._patience_s = patience_s
        self._least = least
        self._began: float | None = None  # time of the first loss
        self._pause_s = _FIRST_PAUSE_S

    def note(self, now: float) -> float:
        """Note a loss at `now`, in seconds of any clock; return the seconds to wait before the next round."""
        self.number += 1
        if self._began is None:
            self._began = now
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self.is_used_up = self.number > self._least and now - self._began >= self._patience_s
        return pause_s

    def bear(self, error: Exception, what: str) -> bool:
        """Log a loss and wait, longer each time; return True.

        Return False at once if the error is not a loss, or if the patience was used up before it. `what` names the
        failed work in the log.
        """
        if not isinstance(error, InfrastructureLost) or self.is_used_up:
            return False
        pause_s = self.note(monotonic())
        limit = "the next loss counts as a try of the batch" if self.is_used_up else "no try of the batch is used up"
        _log.warning(
            "%s: loss %d, %s; tried again: %s", what, self.number, limit, reason_of(error), extra=fields_of(error)
        )
        sleep(pause_s)
        return True
