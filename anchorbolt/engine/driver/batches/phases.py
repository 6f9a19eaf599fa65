"""The rounds of a transactional topology's waves: a batch's processing phase, which may have begun, and its commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import BatchTry, PreparedRound, Round
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.driver.batches.pipeline import Pipeline
from anchorbolt.engine.driver.hooks import Hooks
from anchorbolt.engine.driver.rounds import ONLY_REPEAT, check_round, failing_as_wave, prepared, suspected
from anchorbolt.engine.driver.runner import Runner
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import TaskReport
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
from anchorbolt.util.messages import counted


class PhasedRounds:
    """`checkpoint.ports.Tasks` of a transactional topology."""

    def __init__(self, plan: ExecutionPlan, runner: Runner, pipeline: Pipeline) -> None:
        self._plan = plan
        self._commit_plan = plan.commit_phase()
        self._runner = runner
        self._pipeline = pipeline
        self._hooks = Hooks(self._commit_plan, runner)
        self._retries = plan.settings.max_batch_retries
        self._failures = 0  # of the current batch
        self._txid = -1
        self._cause: AnchorboltError | None = None
        self._left_out = -1  # the last batch that was left out

    def prepare(self, current: Round) -> PreparedRound:
        if current.txid != self._txid:
            self._txid, self._failures, self._cause = current.txid, 0, None
        if self._cause is not None and self._failures > self._retries:
            return self._leave_out(current.txid, self._cause)
        try:
            return self._run_phases(replace(current, checks=self._pipeline.checked == current.txid))
        except InfrastructureLost as error:
            if not current.suspects_tuples:
                raise
            raise self._failed(suspected(error, current)) from error.__cause__
        except AnchorboltError as error:
            if error.found_late and self._pipeline.checked != current.txid:
                self._pipeline.checked = current.txid
                return ONLY_REPEAT
            if isinstance(error, StateError | TopologyError | ConfigError):
                raise
            raise self._failed(error) from error.__cause__

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        if checkpoint.action is Action.ROLLBACK:
            self._pipeline.give_up(current.txid)
        self._hooks.send(checkpoint, current)

    def _run_phases(self, current: Round) -> PreparedRound:
        plan, commit_plan, txid = self._plan, self._commit_plan, current.txid
        with failing_as_wave("the processing phase", txid):
            flight, processed = self._pipeline.take(txid)
        processed = check_round(plan, processed, txid)
        hand_offs = {
            report.task: report.outcome.hand_off for report in processed if report.outcome.hand_off is not None
        }
        batch = BatchTry(flight.attempt, flight.fence, txid - 1, flight.metadata.whole, hand_offs)
        reports: Sequence[TaskReport] = ()
        if commit_plan.levels:
            with failing_as_wave("the commit phase", txid):
                reports = self._runner.run_round(replace(current, batch=batch))
            reports = check_round(commit_plan, reports, txid)
        return replace(
            prepared(plan, reports),
            reports=[*processed, *reports],
            batch=flight.metadata.encode(),
            journals=frozenset(report.component for report in reports if report.outcome.keeps_journal),
        )

    def _failed(self, error: AnchorboltError) -> AnchorboltError:
        """Count a failure of the batch; return its error, with advice if the batch is not tried again."""
        self._failures += 1
        self._cause = error
        if self._failures <= self._retries or self._plan.keeps_dead_letters:
            return error
        advice = "Start again to try it anew. To leave out a batch whose bolts fail for good, set topology.dead.letter"
        return self._for_good(error, advice)

    def _for_good(self, error: AnchorboltError, advice: str) -> AnchorboltError:
        """Return the error with a sentence about how often the batch was tried."""
        tries = counted(self._failures, "time")
        error.message += f"\n\nBatch {self._txid} was tried {tries}. {advice}."
        error.args = (error.message,)
        return error

    def _leave_out(self, txid: int, cause: AnchorboltError) -> PreparedRound:
        """Commit nothing of a batch that failed for good, and keep it as a dead letter.

        Raises the cause if it is not the batch's, such as a task's lost input; if the batch before was left out as
        well, since then the batches are not to blame; or if its metadata is not known, since then nobody knows where
        the next batch begins.
        """
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
            spout=self._plan.batch_spout,
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
