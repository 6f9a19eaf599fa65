"""The rounds of a transactional topology's waves: a batch's processing phase, which may have begun, and its commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import BatchTry, PreparedRound, Round
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.driver.batches.pipeline import Pipeline
from anchorbolt.engine.driver.hooks import HookRunner, Hooks
from anchorbolt.engine.driver.rounds import ONLY_REPEAT, check_round, suspected
from anchorbolt.engine.driver.state_commits import StateCommitRunner
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
    WaveFailed,
    WorkerLost,
)
from anchorbolt.util.messages import counted

T = TypeVar("T")


class CommitRunner(HookRunner, StateCommitRunner, Protocol):
    """Runs the commit phases of batches; each engine implements it."""

    def run_commit(self, current: Round) -> Sequence[TaskReport]:
        """Run the late bolts on what they kept, and PREPARE; return their reports. Raises any exception."""


class PhasedRounds:
    """`checkpoint.ports.Tasks` of a transactional topology."""

    def __init__(self, plan: ExecutionPlan, runner: CommitRunner, pipeline: Pipeline) -> None:
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
        flight, processed = self._guarded("processing", txid, partial(self._pipeline.take, txid))
        check_round(plan, processed, txid)
        hand_offs = {
            report.task: report.outcome.hand_off for report in processed if report.outcome.hand_off is not None
        }
        batch = BatchTry(flight.attempt, flight.fence, txid - 1, flight.metadata.whole, hand_offs)
        reports: Sequence[TaskReport] = ()
        if commit_plan.levels:
            committing = replace(current, batch=batch)
            reports = self._guarded("commit", txid, partial(self._runner.run_commit, committing))
            check_round(commit_plan, reports, txid)
            reports = list({report.task: report for report in reports}.values())
        return PreparedRound(
            winners={
                plan.namespace(report.task): Winner(report.attempt, report.outcome.base, report.outcome.seal)
                for report in reports
                if report.outcome.seal is not None
            },
            task_winners={report.task: report.attempt for report in reports if report.component in plan.stateful},
            files=tuple(file for report in reports for file in report.outcome.files),
            reports=[*{report.task: report for report in processed}.values(), *reports],
            batch=flight.metadata.encode(),
            journals=frozenset(report.component for report in reports if report.outcome.keeps_journal),
        )

    def _guarded(self, phase: str, txid: int, run: Callable[[], T]) -> T:
        try:
            return run()
        except AnchorboltError:
            raise
        except Exception as error:
            raise WaveFailed(
                f"the engine could not finish the {phase} phase of batch {txid}: {type(error).__name__}: {error}",
                txid=txid,
            ) from error

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
