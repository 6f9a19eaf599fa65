"""The pump: runs waves without a streaming query, one after the other, as long as something waits."""

import logging
import math
import threading
import time
from typing import Protocol

from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.one_wave import OneWave
from anchorbolt.engine.driver.pause import Pause
from anchorbolt.engine.driver.wave_report import summarise
from anchorbolt.engine.driver.waves import WaveCommitted, Waves
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spouts.driver_spouts import Clock, DriverSpouts
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.stream import Spout

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 0.05
_CLOSE_S = 5.0


class Query(Waves, Protocol):
    """The waves of a streaming query."""

    one_wave: OneWave  # held during a wave


def driver_spouts(
    plan: ExecutionPlan, engine: str, kinds: tuple[type[Spout], ...], clock: Clock = time.monotonic
) -> DriverSpouts | None:
    """Return the spouts, ticks and replays that the driver runs itself; None if the plan has none of them.

    `kinds` are the spouts that the engine with this name can run. Raises `TopologyError` for any other spout.
    """
    for component, spec in plan.graph.spouts.items():
        if not isinstance(spec.spout, kinds):
            raise TopologyError(
                f"spout {component!r}: it is a {type(spec.spout).__name__}, which does not run on {engine}. Use one of "
                f"{', '.join(kind.__name__ for kind in kinds)}.",
                component=component,
            )
    has_others = len(plan.graph.stream_spouts) < len(plan.graph.spouts)
    return DriverSpouts(plan, clock) if has_others or plan.ticks or plan.replays_letters else None


def waves_of(plan: ExecutionPlan, query: Query | None, spouts: DriverSpouts | None) -> Waves:
    """Return the waves of a topology with stream spouts, which have a query, with others, or with both."""
    if spouts is None:
        assert query is not None, "a topology has a spout"
        return query
    if query is None:
        return Pump(plan, spouts)
    return MixedWaves(query, Pump(plan, spouts, query.one_wave))


class Pump:
    """The port `anchorbolt.engine.driver.waves.Waves` for the spouts, ticks and replays of the driver.

    With stream spouts it is a part of `MixedWaves`.
    """

    def __init__(self, plan: ExecutionPlan, spouts: DriverSpouts, one_wave: OneWave | None = None) -> None:
        """Create it; `one_wave` is held during a wave, and keeps out the waves of a streaming query."""
        self._plan = plan
        self._spouts = spouts
        self._one_wave = one_wave or OneWave()
        self._draining = threading.Event()
        self._pause = Pause()
        self._held_since: float | None = None  # when a pause or the end began, by `time.monotonic`
        self._ends_since: float | None = None  # the same of the end
        self._aborted = self._must_end = False
        self._thread: int | None = None

    def query_id(self) -> str:
        return ""

    def start(self, spout: CheckpointSpout, add: WaveCommitted, *, until_empty: bool) -> None:
        self._spout, self._add, self._until_empty = spout, add, until_empty
        try:
            self._spouts.open(spout.record)
        except BaseException:
            self.close()
            raise

    def wait(self) -> None:
        self._thread = threading.get_ident()
        try:
            self._run_waves()
        finally:
            self._pause.close()
            with self._one_wave:  # a wave of the query may be running, and it writes the record as well
                self.close()
        if self._spouts.rich is not None:
            with self._one_wave:
                self._spout.keep_acked(self._spouts.rich.unconfirmed())
            self._spouts.rich.check()  # a spout may have failed to close

    def stop(self) -> bool:
        self._drain()
        self._pause.close()
        self._spouts.notify()
        return self._thread != threading.get_ident()

    def pause(self) -> None:
        self._pause.begin()
        if self._pause.is_on:  # not if the run is to end
            self._hold()
            self._spouts.pause()

    def wait_until_paused(self, timeout: float | None) -> bool:
        return self._pause.wait_until_ceased(timeout)

    def resume(self) -> None:
        if self._pause.is_on:
            self._held_since = None
            self._spouts.resume()
            self._pause.end()
            self._spouts.notify()

    def abort(self) -> None:
        """End without another wave: what is in flight stays so."""
        self._aborted = True
        self.stop()

    def _drain(self) -> None:
        self._hold()
        if self._ends_since is None:
            self._ends_since = self._held_since or time.monotonic()  # `resume` on another thread forgets the former
        self._draining.set()
        if self._spouts.rich is not None:
            self._spouts.rich.drain()

    def _hold(self) -> None:
        if self._held_since is None:
            self._held_since = time.monotonic()

    def close(self) -> None:
        """Have the spouts end, and warn of those that do not."""
        if self._spouts.rich is not None:
            for component, index in self._spouts.rich.close(_CLOSE_S):
                _log.warning(
                    "spout %r, task %d has not ended: it is in a call that does not return",
                    component,
                    index,
                    extra={"component": component, "task": index},
                )

    def end_when_empty(self) -> None:
        """End as soon as nothing waits and nothing is in flight any more."""
        self._until_empty = True

    def _run_waves(self) -> None:
        spouts = self._spouts
        while True:
            if spouts.rich is not None:
                spouts.rich.check()
            if self._aborted or self._must_end:
                return
            if self._draining.is_set():
                if self._has_run_out():
                    return
            elif self._pause.is_on and (self._pause.has_ceased or self._has_run_out()):
                if not self._pause.has_ceased:
                    self._forget_confirmed()
                    self._pause.cease()
                with spouts.changed:
                    if self._pause.is_on:
                        spouts.changed.wait(_POLL_S)
                continue
            if spouts.is_waiting:
                with self._one_wave:
                    self._run_wave()
            elif self._until_empty and not self._draining.is_set() and spouts.is_idle:
                self._spout.check_not_overtaken()
                self._drain()  # a spout may be about to emit
            else:
                self._forget_confirmed()
                with spouts.changed:
                    if not spouts.is_waiting:
                        spouts.changed.wait(_POLL_S)

    def _has_run_out(self) -> bool:
        """Return whether no wave is needed any more for what the spouts had emitted before they were held."""
        held_s = time.monotonic() - (self._ends_since or self._held_since or math.inf)
        # A spout in a call that does not return may still emit, but it is not waited for without end.
        emits_no_more = self._spouts.is_drained or held_s >= _CLOSE_S
        return (emits_no_more and self._spouts.is_settled) or held_s >= self._plan.settings.message_timeout_secs

    def _forget_confirmed(self) -> None:
        """While nothing waits, note in the record that the sources know of all acks: the next wave may be far away."""
        rich = self._spouts.rich
        if rich is None or not self._spout.record.acked or rich.awaits_sources:
            return
        known, record = rich.unconfirmed(), self._spout.record
        if record.acked_after(known) != record.acked:
            with self._one_wave:
                self._spout.keep_acked(known)

    def _run_wave(self) -> None:
        if self._spout.must_recover:  # a wave of the streaming query has failed behind its decision
            self._must_end = True
            return
        if not self._spouts.is_waiting:  # a wave of the streaming query took it in
            return
        batch = self._spouts.next_batch(self._spout.record)
        with self._spouts.wave(self._spout, replays=True):
            wave = self._spout.run_wave(batch)
        self._add(summarise(wave, self._spouts.rich), wave)


class MixedWaves:
    """The port `Waves` for a topology with stream spouts and others: the waves of a query, and of a pump between them.

    A wave of the query takes in what the other spouts have emitted.
    """

    def __init__(self, query: Waves, pump: Pump) -> None:
        self._query = query
        self._pump = pump
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run_pump, name="anchorbolt-pump", daemon=True)

    def query_id(self) -> str:
        return self._query.query_id()

    def start(self, spout: CheckpointSpout, add: WaveCommitted, *, until_empty: bool) -> None:
        self._pump.start(spout, add, until_empty=False)
        try:
            self._query.start(spout, add, until_empty=until_empty)
        except BaseException:
            self._pump.close()
            raise
        self._thread.start()

    def wait(self) -> BaseException | None:
        failure = self._query.wait()
        if failure is not None:
            self._pump.abort()
        self._pump.end_when_empty()
        self._thread.join()
        return failure or self._failure

    def stop(self) -> bool:
        self._pump.stop()
        if threading.current_thread() is self._thread:  # a listener, for which the query's end would wait
            threading.Thread(target=self._query.stop, name="anchorbolt-stop", daemon=True).start()
            return False
        return self._query.stop()

    def pause(self) -> None:
        self._query.pause()
        self._pump.pause()

    def wait_until_paused(self, timeout: float | None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        if not self._query.wait_until_paused(timeout):
            return False
        return self._pump.wait_until_paused(None if end is None else max(0.0, end - time.monotonic()))

    def resume(self) -> None:
        self._pump.resume()
        self._query.resume()

    def _run_pump(self) -> None:
        try:
            self._pump.wait()
        except BaseException as error:
            self._failure = error
            self._query.stop()
