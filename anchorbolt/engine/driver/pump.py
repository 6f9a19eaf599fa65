"""The pump: runs waves without a streaming query, one after the other, as long as something waits."""

import logging
import threading
import time

from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.rounds import summarise
from anchorbolt.engine.driver.spouts import DriverSpouts
from anchorbolt.engine.submit.handle import WaveListener
from anchorbolt.engine.submit.plan import ExecutionPlan

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 0.05
_CLOSE_S = 5.0


class Pump:
    """The port `anchorbolt.engine.submit.handle.Waves` for a topology without stream spouts."""

    def __init__(self, plan: ExecutionPlan, spouts: DriverSpouts) -> None:
        self._plan = plan
        self._spouts = spouts
        self._stop_requested = threading.Event()
        self._thread: int | None = None

    def query_id(self) -> str:
        return ""

    def start(self, spout: CheckpointSpout, add: WaveListener, *, until_empty: bool) -> None:
        self._spout, self._add, self._until_empty = spout, add, until_empty
        try:
            self._spouts.open()
        except BaseException:
            self._spouts.close(_CLOSE_S)
            raise

    def wait(self) -> None:
        self._thread = threading.get_ident()
        try:
            self._run_waves()
        finally:
            for component, index in self._spouts.close(_CLOSE_S):
                _log.warning(
                    "spout %r, task %d has not ended: it is still in a call that does not return", component, index
                )

    def stop(self) -> bool:
        self._stop_requested.set()
        self._spouts.drain()
        self._spouts.notify()
        return self._thread != threading.get_ident()

    def _run_waves(self) -> None:
        spouts, drained_by = self._spouts, 0.0
        while True:
            spouts.check()
            if self._stop_requested.is_set():
                drained_by = drained_by or time.monotonic() + self._plan.settings.message_timeout_secs
                if spouts.is_settled or time.monotonic() >= drained_by:
                    return
            if spouts.is_waiting:
                self._run_wave()
            elif self._until_empty and spouts.is_idle:
                self._spout.check_not_overtaken()
                return
            else:
                with spouts.changed:
                    if not spouts.is_waiting:
                        spouts.changed.wait(_POLL_S)

    def _run_wave(self) -> None:
        spouts, record = self._spouts, self._spout.record
        number = record.batch_id + 1
        spouts.begin_wave(number)
        committed = False
        try:
            report = summarise(self._spout.run_wave(Batch(record.query_id, number)))
            committed = True
        finally:
            spouts.end_wave(self._spout.record.batch_id, committed=committed)
        self._add(report)
