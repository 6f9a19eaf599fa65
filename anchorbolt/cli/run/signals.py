"""SIGINT and SIGTERM during a run: the first ends it after the current wave, a second SIGINT at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """A context manager that handles both signals. For the main thread only.

    The first signal only sets `stop_requested`. A SIGINT after it raises `KeyboardInterrupt` in the main thread; a
    SIGTERM after it changes nothing.
    """

    def __init__(self) -> None:
        self.stop_requested = False
        self._before: list[Callable[[int, FrameType | None], Any] | int | None] = []

    def __enter__(self) -> StopSignals:
        self._before = [signal.getsignal(number) for number in _SIGNALS]
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(_SIGNALS, self._before, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def take(self) -> None:
        """Install the handlers, again if necessary: PySpark installs its own whenever it makes a SparkContext."""
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stop_requested = True
