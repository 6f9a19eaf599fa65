"""Waiting, within bounds, for a store that does not answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from anchorbolt.errors import StateUnavailable

_log = logging.getLogger("anchorbolt.engine")

T = TypeVar("T")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Patience:
    """Repeats what may be repeated while it raises `StateUnavailable`, for a bounded time."""

    def __init__(self, patience_ms: float) -> None:
        self._patience_s = patience_ms / 1000

    def until_available(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; raises its last `StateUnavailable` once patience is over."""
        outage = self.outage()
        while True:
            try:
                return call()
            except StateUnavailable as error:
                if not outage.waited(error):
                    raise

    def outage(self) -> Outage:
        """Return what bounds the waiting for one thing that may fail several times."""
        return Outage(self._patience_s)


class Outage:
    """The failures of one thing: pauses after each, and says when patience is over."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._deadline: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def waited(self, error: StateUnavailable) -> bool:
        """Wait a while after a failure, longer each time; False, at once, when patience is over."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._patience_s
        if now + self._pause_s > self._deadline:
            return False
        _log.warning("waiting for the state store: %s", error)
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True
