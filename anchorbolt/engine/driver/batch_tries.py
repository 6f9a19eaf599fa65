"""Counts the tries of a transactional topology's batch, and leaves out a batch that fails for good as a dead letter."""

from __future__ import annotations

import time

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import PreparedRound, Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import (
    AnchorboltError,
    BoltError,
    ConfigError,
    InfrastructureLost,
    SpoutError,
    StateError,
    TopologyError,
    WorkerLost,
)
from anchorbolt.transactional.batches.pipeline import Pipeline
from anchorbolt.util.messages import counted

_NOT_OF_THE_BATCH = (StateError, TopologyError, ConfigError)


class BatchTries:
    """The tries of one run's batches."""

    def __init__(self, plan: ExecutionPlan, pipeline: Pipeline) -> None:
        self._plan = plan
        self._pipeline = pipeline
        self._retries = plan.settings.max_batch_retries
        self._failures = 0  # of the current batch
        self._txid = -1
        self._cause: AnchorboltError | None = None
        self._left_out = -1  # the last batch that was left out

    def instead_of(self, current: Round) -> PreparedRound | None:
        """Return a round with only the batch's dead letter if the batch has failed for good, None otherwise.

        Raises the cause instead if no bolt, spout or worker failed the batch; if the batch before was left out too,
        because then the batches are not to blame; or if the batch's metadata is unknown, because the next batch begins
        after it.
        """
        if current.txid != self._txid:
            self._txid, self._failures, self._cause = current.txid, 0, None
        if self._cause is None or self._failures <= self._retries:
            return None
        return self._leave_out(current.txid, self._cause)

    def failed(self, error: AnchorboltError, current: Round) -> None:
        """Count a round's failure if the batch may have caused it. Adds advice to an error that ends the run."""
        is_first_late = error.found_late and not current.checks
        is_loss = isinstance(error, InfrastructureLost) and not current.suspects_tuples
        if is_first_late or is_loss or isinstance(error, _NOT_OF_THE_BATCH):
            return
        self._failures += 1
        self._cause = error
        if self._failures > self._retries and not self._plan.keeps_dead_letters:
            advice = "Start again to try it anew. To leave out a batch whose bolts fail for good, set"
            self._for_good(error, f"{advice} topology.dead.letter")

    def _for_good(self, error: AnchorboltError, advice: str) -> AnchorboltError:
        """Add a sentence to the error about how often the batch was tried."""
        tries = counted(self._failures, "time")
        error.message += f"\n\nBatch {self._txid} was tried {tries}. {advice}."
        error.args = (error.message,)
        return error

    def _leave_out(self, txid: int, cause: AnchorboltError) -> PreparedRound:
        metadata = self._pipeline.known(txid)
        if not isinstance(cause, BoltError | SpoutError | WorkerLost):
            raise self._for_good(cause, "It is not left out, because no bolt or spout has failed it")
        if self._left_out == txid - 1:
            raise self._for_good(cause, f"Batch {txid - 1} was left out before it, so the batches are not to blame")
        if metadata is None:
            raise self._for_good(cause, "It cannot be left out, because it failed before its metadata was known")
        self._left_out = txid
        by = (cause.component, cause.task_index) if isinstance(cause, BoltError | SpoutError) else ("", -1)
        letter = DeadLetter(
            spout=self._plan.wiring.batch_spout,
            stream="",
            values=(txid, metadata.values()),
            msg_id=None,
            component=by[0],
            task_index=by[1],
            reason=getattr(cause, "user_traceback", "") or cause.message,
            tries=self._failures,
            at=time.time(),
        )
        return PreparedRound({}, {}, (), (), dead_letters=(letter,), batch=metadata.encode())
