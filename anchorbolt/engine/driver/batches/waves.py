"""The waves of a transactional topology: each batch is one, in the order of the txids."""

from __future__ import annotations

import math
import threading

from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.batches.pipeline import Pipeline, StartProcessing
from anchorbolt.engine.driver.rounds import summarise
from anchorbolt.engine.submit.handle import WaveListener
from anchorbolt.engine.submit.plan import ExecutionPlan

_POLL_S = 0.05


class BatchWaves:
    """The port `anchorbolt.engine.submit.handle.Waves` of a transactional topology."""

    def __init__(self, plan: ExecutionPlan, start: StartProcessing) -> None:
        """Create it; `start` begins the processing phase of a batch in the background."""
        self._spout_id = plan.batch_spout
        self._interval_s = plan.settings.checkpoint_interval_ms / 1000
        self._start_processing = start
        self._stopped = threading.Event()
        self._thread: int | None = None
        self.pipeline: Pipeline  # set when the run's decision log is there

    def query_id(self) -> str:
        return ""

    def start(self, spout: CheckpointSpout, add: WaveListener, *, until_empty: bool) -> None:
        self._spout, self._add, self._until_empty = spout, add, until_empty
        self.pipeline.open(spout, self._start_processing)

    def wait(self) -> None:
        self._thread = threading.get_ident()
        try:
            self._run_batches()
        finally:
            self.pipeline.close()

    def stop(self) -> bool:
        self._stopped.set()
        return self._thread != threading.get_ident()

    def _run_batches(self) -> None:
        while not self._stopped.is_set():
            self.pipeline.fill()
            if not self.pipeline.is_empty:
                self._run_batch(self._spout.record.txid + 1)
            elif self._until_empty:
                self._spout.check_not_overtaken()
                return
            else:
                self._stopped.wait(_POLL_S)

    def _run_batch(self, txid: int) -> None:
        wave = self._spout.run_wave(Batch("", txid))
        self.pipeline.committed(txid)
        report = summarise(wave)
        if not report.tuples_out.get(self._spout_id) and not self.pipeline.can_tell:
            self.pipeline.rest(math.inf if self._until_empty else self._interval_s)
        self._add(report)
