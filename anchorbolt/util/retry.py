"""Waits, within bounds, for a store that does not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from anchorbolt.errors import StateUnavailable

_log = logging.getLogger("anchorbolt.util")

T = TypeVar("T")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class RetryPolicy:
    """Repeats a call while the store does not answer. Only for calls that may be repeated."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_s = timeout_ms / 1000
        self._quiet_until: dict[str, float] = {}  # no line before this time, for each `waits_for`
        self._waiting: WeakKeyDictionary[Backoff, tuple[str, float]] = WeakKeyDictionary()
        self._told: set[str] = set()  # `waits_for` of calls with a logged wait and no logged answer yet
        self._lock = threading.Lock()

    def until_available(self, call: Callable[[], T]) -> T:
        """Return the result of `call`; raise its `StateUnavailable` after the deadline."""
        backoff = Backoff(self)
        try:
            while True:
                try:
                    answer = call()
                except StateUnavailable as error:
                    if not backoff.sleep_or_give_up(error):
                        raise
                else:
                    backoff.end()
                    return answer
        finally:
            self.forget(backoff)

    @property
    def waiting(self) -> dict[str, float]:
        """By `waits_for` of the waiting calls, the seconds since the first failure. May be read on any thread."""
        now, waiting = time.monotonic(), dict[str, float]()
        with self._lock:
            for waits_for, began in self._waiting.values():
                waiting[waits_for] = max(waiting.get(waits_for, 0.0), now - began)
        return waiting

    def note(self, backoff: Backoff, waits_for: str, began: float) -> None:
        """Note that a call waits, until its `Backoff` ends or is deleted."""
        with self._lock:
            self._waiting[backoff] = waits_for, began

    def forget(self, backoff: Backoff) -> None:
        """Note that a call waits no longer."""
        with self._lock:
            self._waiting.pop(backoff, None)

    def answered(self, backoff: Backoff) -> None:
        """Note that a call waits no longer, and log it if no other call waits for the same."""
        now = time.monotonic()
        with self._lock:
            waits_for, began = self._waiting.pop(backoff, ("", now))
            if waits_for not in self._told or any(waits_for == other for other, _ in self._waiting.values()):
                return
            self._told.remove(waits_for)
        _log.warning("no longer waiting for %s, after %.1f s", waits_for, now - began)

    def backoff(self) -> Backoff:
        """Return the pauses of a new wave. The store answered before it, so the next failure is logged at once."""
        self._quiet_until.clear()
        return Backoff(self)

    def warn(self, error: StateUnavailable, now: float, waited: float) -> None:
        """Log that the run waits: one line for all threads, repeated less and less often."""
        with self._lock:
            if now < self._quiet_until.get(error.waits_for, now):
                return
            self._quiet_until[error.waits_for] = now + max(waited, 2 * _LONGEST_PAUSE_S)
            self._told.add(error.waits_for)
        so_far = f", for {waited:,.0f} of {self.timeout_s:,.0f} s" if waited >= _LONGEST_PAUSE_S else ""
        _log.warning("waiting for %s%s: %s", error.waits_for, so_far, error)


class Backoff:
    """The pauses between tries. The time runs from the first failure."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._began: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    @property
    def waited_s(self) -> float:
        """The seconds since the first failure."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def end(self) -> None:
        """Note that the call was answered. It still counts from the first failure if it fails again."""
        self._policy.answered(self)

    def sleep_or_give_up(self, error: StateUnavailable) -> bool:
        """Sleep, longer each time, and return True; after the deadline return False at once."""
        pause_s = self.pause_or_give_up(error)
        if pause_s is None:
            return False
        time.sleep(pause_s)
        return True

    def pause_or_give_up(self, error: StateUnavailable) -> float | None:
        """Return the seconds until the next try, more each time; None after the deadline. Does not sleep."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        waited = now - self._began
        if waited + self._pause_s > self._policy.timeout_s:
            return None
        self._policy.note(self, error.waits_for, self._began)
        self._policy.warn(error, now, waited)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s


NO_RETRY = RetryPolicy(0)
"""A single try: for tools, which a person can start again."""
