"""The wave loop: the one thread of a run that runs waves, and the one place that decides whether a wave is needed."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.sources.wave_report import WaveReport, summarise

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 0.05

WaveCommitted = Callable[[WaveReport, CommittedWave], None]
"""Called after each committed wave."""


class RunStatus(str, Enum):
    """The state of a run; see `RunHandle.status`."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


class Step(Enum):
    """The result of a step of the loop."""

    RAN = "ran"  # a wave has committed, or the loop has begun to end: step again at once
    WAITS = "waits"  # there is nothing to do now
    ENDED = "ended"


class WaveLoop:
    """The waves of one run. `stop`, `wake` and the methods of the pause may be called on any thread."""

    def __init__(
        self, sources: Sequence[Source], between_waves: Callable[[DecisionRecord], None] = lambda _: None
    ) -> None:
        """Create it. An earlier source decides on the batch of a wave before a later one, see `Source.next`.

        `between_waves` is called with the last record before each step.
        """
        self._sources = sources
        self._between_waves = between_waves
        self._changed = threading.Condition()
        self._is_woken = False
        self._pause = Pause()
        self._is_draining = False
        self._held_since: float | None = None  # when a pause or the end began, by `time.monotonic`
        self._drains_since: float | None = None  # the same of the end
        self._thread: int | None = None

    def query_id(self) -> str:
        """Return the id of the streaming query at the checkpoint location, or an empty string."""
        return next((found for source in self._sources if (found := source.query_id())), "")

    def open(self, checkpoints: CheckpointCoordinator, add: WaveCommitted, *, until_empty: bool) -> None:
        """Open the sources, after the coordinator has recovered. The loop calls `add` after each committed wave."""
        self._checkpoints, self._add, self._until_empty = checkpoints, add, until_empty
        try:
            for source in reversed(self._sources):  # a streaming query at last: it begins to work
                source.open(checkpoints, self.wake, until_empty=until_empty)
        except BaseException as error:
            self._close(error)
            raise

    def run(self) -> BaseException | None:
        """Run waves until `stop` or, with `until_empty`, until the sources are empty. Return or raise the error."""
        self._thread = threading.get_ident()
        failure: BaseException | None = None
        try:
            while (step := self.step()) is not Step.ENDED:
                if step is Step.WAITS:
                    self.wait()
        except BaseException as error:
            failure = error
        self._pause.close()
        failure = self._close(failure)
        if failure is None:
            for source in self._sources:
                source.finished()
        return failure

    def step(self) -> Step:
        """Run a wave if one is needed, or end the run if it should end. Raises the error of a wave or a source."""
        self._between_waves(self._checkpoints.record)
        for source in self._sources:
            source.check()
        if self._is_draining:
            if self._has_run_out:
                return Step.ENDED
        elif self._pause.is_on and (self._pause.has_ceased or self._has_run_out):
            if not self._pause.has_ceased:
                self._idle()
                self._pause.cease()
            return Step.WAITS
        polls = [source.poll() for source in self._sources]
        if any(polls):
            self._run_wave()
            return Step.RAN
        ends = self._until_empty or any(source.is_over for source in self._sources)
        if ends and not self._is_draining and all(source.is_empty for source in self._sources):
            if any(source.would_end() for source in self._sources):
                return Step.RAN
            self._checkpoints.check_not_overtaken()
            self._drain()  # a spout may be about to emit
            return Step.RAN
        self._idle()
        return Step.WAITS

    def stop(self) -> bool:
        """End the run after the current wave and the waves for messages and batches in flight.

        Returns False if the loop's own thread calls this, as in a listener.
        """
        self._drain()
        self._pause.close()
        self.wake()
        return self._thread != threading.get_ident()

    def pause(self) -> None:
        """Ask no source for more, and run waves only for messages and batches in flight. Return at once.

        Has no effect after `stop`.
        """
        self._pause.begin()
        if self._pause.is_on:
            self._hold()
            for source in self._sources:
                source.pause()
            self.wake()

    def wait_until_paused(self, timeout: float | None) -> bool:
        """Wait until the waves have ended or the pause is over; return False after `timeout` seconds."""
        return self._pause.wait_until_ceased(timeout)

    def resume(self) -> None:
        """End the pause, if any. Return at once."""
        if self._pause.is_on:
            self._held_since = None
            for source in self._sources:
                source.resume()
            self._pause.end()
            self.wake()

    def wake(self) -> None:
        """Make the loop check again whether a wave is needed."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until the loop is woken, or 50 ms: not every event that a source waits for wakes the loop."""
        with self._changed:
            if not self._is_woken:
                self._changed.wait(_POLL_S)
            self._is_woken = False

    def _drain(self) -> None:
        self._hold()
        if self._drains_since is None:
            self._drains_since = self._held_since or time.monotonic()  # `resume` on another thread clears it
        self._is_draining = True
        for source in self._sources:
            source.drain()

    def _hold(self) -> None:
        if self._held_since is None:
            self._held_since = time.monotonic()

    @property
    def _has_run_out(self) -> bool:
        held_s = time.monotonic() - (self._drains_since or self._held_since or math.inf)
        return all(source.has_run_out(held_s) for source in self._sources)

    def _idle(self) -> None:
        for source in self._sources:
            source.idle()

    def _run_wave(self) -> None:
        checkpoints, batch = self._checkpoints, None
        try:
            for source in self._sources:
                batch = source.next(checkpoints.record, batch)
            record = checkpoints.record
            wave = self._committed(batch or Batch(record.query_id, record.batch_id, record.offsets_digest))
            report = summarise(wave)
            for source in self._sources:
                report = source.settle(wave, report)
        except BaseException:
            self._end_wave(has_failed=True)
            raise
        self._end_wave()
        self._add(report, wave)

    def _end_wave(self, *, has_failed: bool = False) -> None:
        for source in self._sources:
            try:
                source.end_wave(self._checkpoints.record.txid)
            except Exception:
                if not has_failed:
                    raise
                _log.warning("a source could not end its part of a wave that has failed", exc_info=True)

    def _committed(self, batch: Batch) -> CommittedWave:
        try:
            return self._checkpoints.run_wave(batch)
        except Exception as error:
            explained: BaseException = error
            for source in self._sources:
                explained = source.explained(explained)
            if explained is error:
                raise
            raise explained from error

    def _close(self, failure: BaseException | None) -> BaseException | None:
        for source in self._sources:
            try:
                failure = source.close(failure)
            except BaseException as error:
                if failure is not None:
                    _log.warning("a source could not be closed", exc_info=True)
                failure = failure or error
        return failure


class _Phase(Enum):
    OFF = "off"
    PAUSING = "pausing"  # waves may still run, for messages and batches in flight
    CEASED = "ceased"
    CLOSED = "closed"  # the run is ending and cannot be paused any more


class Pause:
    """The pause of a run's waves.

    ```
    OFF ──begin──▶ PAUSING ──cease──▶ CEASED        any ──close──▶ CLOSED
     ▲                │                 │
     └──────end───────┴───────end───────┘
    ```

    Thread-safe. A transition that is not in the diagram changes nothing.
    """

    def __init__(self) -> None:
        self._phase = _Phase.OFF
        self._changed = threading.Condition()

    @property
    def is_on(self) -> bool:
        """Whether the loop must not ask the sources for more."""
        return self._phase in (_Phase.PAUSING, _Phase.CEASED)

    @property
    def has_ceased(self) -> bool:
        """Whether no wave runs, and none begins before the end of the pause."""
        return self._phase is _Phase.CEASED

    def begin(self) -> None:
        """Pause the run."""
        self._move([_Phase.OFF], _Phase.PAUSING)

    def cease(self) -> None:
        """Note that no wave runs, and that none begins before the end of the pause."""
        self._move([_Phase.PAUSING], _Phase.CEASED)

    def end(self) -> None:
        """Resume the run."""
        self._move([_Phase.PAUSING, _Phase.CEASED], _Phase.OFF)

    def close(self) -> None:
        """End the pause for good, because the run is ending."""
        self._move(list(_Phase), _Phase.CLOSED)

    def wait_until_ceased(self, timeout: float | None) -> bool:
        """Wait until the waves have ceased or the pause has ended; return False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._phase is not _Phase.PAUSING, timeout)

    def _move(self, sources: list[_Phase], target: _Phase) -> None:
        with self._changed:
            if self._phase in sources:
                self._phase = target
                self._changed.notify_all()
