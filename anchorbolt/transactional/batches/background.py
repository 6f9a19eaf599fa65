"""Runs processing phases in the background, on reused threads."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from anchorbolt.checkpoint.ports import Round

_END_S = 5.0
"""How long the end of a run waits for cancelled phases."""


class Cancellation:
    """Whether a processing phase was cancelled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.is_set = False

    def set(self) -> None:
        with self._lock:
            self.is_set = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def call(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the phase is cancelled, or at once if it was already."""
        with self._lock:
            if not self.is_set:
                self._callbacks.append(callback)
                return
        callback()

    def clear(self) -> None:
        """Drop the callbacks, because the phase has ended."""
        with self._lock:
            self._callbacks = []


Run = Callable[[Round, Cancellation], Sequence[Any]]
"""Runs a processing phase; must end soon after it is cancelled."""


class InBackground:
    """One processing phase: `anchorbolt.transactional.batches.pipeline.Phase`."""

    def __init__(self, current: Round, notify: Callable[[], None]) -> None:
        self.round = current
        self._cancellation = Cancellation()
        self._notify = notify
        self._reports: Sequence[Any] | None = None
        self._failure: BaseException | None = None
        self.is_ended = False

    def run(self, run: Run) -> None:
        try:
            self._reports = run(self.round, self._cancellation)
        except BaseException as error:  # raised again on the thread that waits for the reports
            self._failure = error
        self._cancellation.clear()
        self.is_ended = True
        self._notify()

    def reports(self) -> Sequence[Any]:
        if self._failure is not None:
            raise self._failure
        assert self._reports is not None, "it has ended"
        return self._reports

    def cancel(self) -> None:
        self._cancellation.set()


class Background:
    """The threads. A thread that is stuck in a cancelled phase does not delay the next phase."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: queue.SimpleQueue[InBackground | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    def start(self, current: Round, notify: Callable[[], None]) -> InBackground:
        """Begin a processing phase; its thread calls `notify` when the phase has ended."""
        processing = InBackground(current, notify)
        with self._lock:
            is_new = self._idle == 0
            if not is_new:
                self._idle -= 1
        self._waiting.put(processing)
        if is_new:
            thread = threading.Thread(target=self._work, name="anchorbolt-batch", daemon=True)
            self._threads.append(thread)
            thread.start()
        return processing

    def close(self, timeout_s: float = _END_S) -> None:
        """Make the threads end when they are idle, and wait for them, at most `timeout_s` seconds."""
        for _ in self._threads:
            self._waiting.put(None)
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while (processing := self._waiting.get()) is not None:
            processing.run(self._run)
            with self._lock:
                self._idle += 1
