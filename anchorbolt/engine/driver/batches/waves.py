"""The waves of a transactional topology: each batch is one, in the order of the txids."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import replace

from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.batches.pipeline import Pipeline, StartProcessing
from anchorbolt.engine.driver.pause import Pause
from anchorbolt.engine.driver.wave_report import summarise
from anchorbolt.engine.driver.waves import WaveCommitted
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import AnchorboltError, ConfigError, StateError, TopologyError
from anchorbolt.util.messages import reason_of
from anchorbolt.util.retry import RetryPolicy

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 0.05
_PAUSE_S = 0.1
"""Before a coordinator that has failed is called again."""


class BatchWaves:
    """The port `anchorbolt.engine.driver.waves.Waves` of a transactional topology."""

    def __init__(self, plan: ExecutionPlan, start: StartProcessing) -> None:
        """Create it; `start` begins the processing phase of a batch in the background."""
        self._spout_id = plan.batch_spout
        self._settings = plan.settings
        self._start_processing = start
        self._stopped = threading.Event()
        self._pause = Pause()
        self._thread: int | None = None
        self.pipeline: Pipeline  # set when the run's decision log is there

    def query_id(self) -> str:
        return ""

    def start(self, spout: CheckpointSpout, add: WaveCommitted, *, until_empty: bool) -> None:
        self._spout, self._add, self._until_empty = spout, add, until_empty
        self.pipeline.open(spout, self._start_processing)

    def wait(self) -> None:
        self._thread = threading.get_ident()
        try:
            self._run_batches()
        finally:
            self._pause.close()
            self.pipeline.close()
        if not self.pipeline.waits:
            self._spout.end_batches()

    def stop(self) -> bool:
        self._stopped.set()
        self._pause.close()
        return self._thread != threading.get_ident()

    def pause(self) -> None:
        self._pause.begin()
        self.pipeline.begins_no_more = self._pause.is_on

    def wait_until_paused(self, timeout: float | None) -> bool:
        return self._pause.wait_until_ceased(timeout)

    def resume(self) -> None:
        self.pipeline.begins_no_more = False
        self._pause.end()

    def _run_batches(self) -> None:
        settings = self._settings
        retry, failures = RetryPolicy(settings.message_timeout_secs * 1000), 0
        while not self._stopped.is_set():
            if self._pause.is_on and self.pipeline.is_empty:
                self._pause.cease()
                self._pause.wait_until_over()
                continue
            try:
                was_asked = retry.until_available(self.pipeline.fill)
            except (StateError, TopologyError, ConfigError):
                raise
            except AnchorboltError as error:  # the coordinator's, mostly
                failures, tries = failures + 1, settings.max_batch_retries + 1
                if failures >= tries:
                    raise
                _log.warning("try %d of %d to begin a batch failed: %s", failures, tries, reason_of(error))
                self._stopped.wait(_PAUSE_S)
                continue
            failures = 0
            if not self.pipeline.is_empty:
                self._run_batch(self._spout.record.txid + 1)
            elif self._until_empty and was_asked:
                self._spout.check_not_overtaken()
                return
            else:
                self._stopped.wait(_POLL_S)

    def _run_batch(self, txid: int) -> None:
        wave = self._spout.run_wave(Batch("", txid))
        self.pipeline.committed(txid)
        report = replace(summarise(wave), source_offsets_behind=self.pipeline.behind())
        is_empty = not report.tuples_out.get(self._spout_id) and not report.dead_letters
        if is_empty and not self.pipeline.can_tell:
            self.pipeline.rest(math.inf if self._until_empty else self._settings.checkpoint_interval_ms / 1000)
        self._add(report, wave)
