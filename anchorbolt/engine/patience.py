"""Waiting, within bounds, for a store that does not answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from anchorbolt.errors import StateUnavailable

__all__ = ["Patience"]

_log = logging.getLogger("anchorbolt.engine")

T = TypeVar("T")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class Patience:
    """Repeats a call, which must be repeatable, while it raises `StateUnavailable`, for a bounded time."""

    def __init__(self, patience_ms: float) -> None:
        self._patience_s = patience_ms / 1000

    def until_available(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; raises its last `StateUnavailable` once patience is over."""
        deadline = time.monotonic() + self._patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return call()
            except StateUnavailable as error:
                if time.monotonic() + pause > deadline:
                    raise
                _log.warning("waiting for the state store: %s", error)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
