"""The source of a transactional topology: each batch is a wave, in the order of the txids."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.errors import AnchorboltError, ConfigError, StateError, TopologyError
from anchorbolt.files import Folder
from anchorbolt.transactional.batches.coordinator import BatchCoordinator
from anchorbolt.transactional.batches.pipeline import Pipeline, Processing
from anchorbolt.util.messages import reason_of
from anchorbolt.util.retry import RetryPolicy

_log = logging.getLogger("anchorbolt.engine")

_PAUSE_S = 0.1


def pipeline_of(plan: ExecutionPlan, log: DecisionLog, folder: Folder, processing: Processing) -> Pipeline:
    """Return the pipeline of a run, which is not open; `folder` is the checkpoint location."""
    spout: Any = plan.graph.spouts[plan.wiring.batch_spout].spout
    context = plan.wiring.context((plan.wiring.batch_spout, 0))
    return Pipeline(
        plan.wiring.batch_spout,
        lambda: BatchCoordinator(plan.wiring.batch_spout, spout, plan.conf, context, processing.session),
        processing,
        log,
        folder,
        tasks=len(plan.wiring.tasks.get(plan.wiring.batch_spout, ())),
        most=plan.settings.max_spout_pending or 1,
    )


class BatchSource(Source):
    """Fills the pipeline of batches between two waves; a batch's wave waits until its processing phase has ended."""

    def __init__(self, plan: ExecutionPlan, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._spout_id = plan.wiring.batch_spout
        self._settings = plan.settings
        self._retry = RetryPolicy(plan.settings.message_timeout_secs * 1000)
        self._failures = 0  # in a row, to begin a batch
        self._again_at = 0.0  # by `time.monotonic`: the coordinator has failed, and is not called before
        self._was_asked = False  # whether the coordinator was asked for another batch at the last poll
        self._is_draining = False

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        self._checkpoints, self._until_empty = checkpoints, until_empty
        self._pipeline.open(checkpoints)

    def poll(self) -> bool:
        """Fill the pipeline; return whether a batch is in flight.

        Raises the coordinator's error if its tries are used up, and at once an error that another try cannot fix.
        """
        if time.monotonic() < self._again_at:
            return False
        try:
            self._was_asked = self._retry.until_available(self._pipeline.fill)
        except (StateError, TopologyError, ConfigError):
            raise
        except AnchorboltError as error:  # mostly of the coordinator
            self._was_asked = False
            self._failures, tries = self._failures + 1, self._settings.max_batch_retries + 1
            if self._failures >= tries:
                raise
            _log.warning("try %d of %d to begin a batch failed: %s", self._failures, tries, reason_of(error))
            self._again_at = time.monotonic() + _PAUSE_S
            return False
        self._failures = 0
        return not self._pipeline.is_empty

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch:
        return Batch("", record.txid + 1)

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        self._pipeline.committed(wave.txid)
        is_empty = not report.tuples_out.get(self._spout_id) and not report.dead_letters
        if is_empty and not self._pipeline.can_tell:
            self._pipeline.hold_back(math.inf if self._until_empty else self._settings.checkpoint_interval_ms / 1000)
        return replace(report, source_offsets_behind=self._pipeline.behind())

    def pause(self) -> None:
        self._pipeline.begins_no_more = True

    def resume(self) -> None:
        self._pipeline.begins_no_more = False

    def drain(self) -> None:
        self._is_draining = True

    def has_run_out(self, held_s: float) -> bool:
        """Return whether no batch is in flight; the end of a run abandons the batches in flight."""
        return self._is_draining or self._pipeline.is_empty

    @property
    def is_empty(self) -> bool:
        return self._pipeline.is_empty and self._was_asked

    def close(self, failure: BaseException | None) -> BaseException | None:
        self._pipeline.close()
        return failure

    def finished(self) -> None:
        if not self._pipeline.waits:
            self._checkpoints.end_batches()
