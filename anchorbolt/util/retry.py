"""Waits, within bounds, for a store that does not answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from anchorbolt.errors import StateUnavailable

_log = logging.getLogger("anchorbolt.util")

T = TypeVar("T")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class RetryPolicy:
    """Repeats a call while the store does not answer. Only for calls that may be repeated."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_s = timeout_ms / 1000

    def until_available(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; raise its `StateUnavailable` once the time is used up."""
        backoff = self.backoff()
        while True:
            try:
                return call()
            except StateUnavailable as error:
                if not backoff.sleep_or_give_up(error):
                    raise

    def backoff(self) -> Backoff:
        return Backoff(self._timeout_s)


class Backoff:
    """The pauses between tries. The time runs from the first failure; the log names it less and less often."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._began: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._said_after_s = 0.0

    def sleep_or_give_up(self, error: StateUnavailable) -> bool:
        """Sleep, longer each time, and return True; return False at once when the time is used up."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        waited = now - self._began
        if waited + self._pause_s > self._timeout_s:
            return False
        if waited >= 2 * self._said_after_s:
            so_far = f", for {waited:,.0f} of {self._timeout_s:,.0f} s" if self._said_after_s else ""
            _log.warning("waiting for %s%s: %s", error.waits_for, so_far, error)
            self._said_after_s = max(waited, _LONGEST_PAUSE_S)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True


NO_RETRY = RetryPolicy(0)
"""Tries once: for tools, which a person can start again."""
