"""The driver's side of a wave, whatever engine runs its tasks: recovery, rounds, decision, commit.

Follows section 3 of the design step by step. What has to be decided is decided by `checkpoint`; this module acts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.decision_log import CHECKPOINT_SPOUT_ID, CheckpointSpout
from anchorbolt.checkpoint.location import FolderCopy
from anchorbolt.checkpoint.recovery import (
    check_query,
    check_schemas,
    check_sequence,
    is_of_query,
    later_versions,
)
from anchorbolt.checkpoint.state_machine import Action, CheckpointState
from anchorbolt.engine.driver.namespaces import Namespaces
from anchorbolt.engine.driver.outbox import Outbox
from anchorbolt.engine.driver.reports import RecoveryReport, WaveReport, check_round, summarise, winners_of
from anchorbolt.engine.driver.retry import Patience
from anchorbolt.engine.driver.startup import Survey
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.submission import Submission
from anchorbolt.engine.task.hooks import hooked_tasks
from anchorbolt.engine.task.round import TaskKey, TaskReport, Wave
from anchorbolt.errors import (
    AnchorboltError,
    CodecMismatch,
    ConfigError,
    Fenced,
    QueryChanged,
    StateCorrupted,
    StateRegressed,
    StateUnavailable,
    TopologyError,
    WaveFailed,
)
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.contract import NO_FENCE, Fence
from anchorbolt.state_backends.state import State
from anchorbolt.util.locations import Folder

_log = logging.getLogger("anchorbolt.engine")

_NOT_OURS_ANY_MORE = (Fenced, StateRegressed)
"""Errors after which this driver must not write to the store at all."""

_FINAL = (StateCorrupted, CodecMismatch, ConfigError, QueryChanged, TopologyError)
"""Errors that trying the batch again cannot mend."""


@dataclass(frozen=True)
class Batch:
    """What a wave processes, as its source names it.

    Attributes:
        query_id: Id of the streaming query.
        batch_id: Its batch, counted from 0.
        offsets_digest: Digest of the batch's offsets; empty where the source has none.
    """

    query_id: str
    batch_id: int
    offsets_digest: str = ""


class Runner(Protocol):
    """What an engine does for the coordinator."""

    def run_round(self, wave: Wave) -> Sequence[TaskReport]:
        """Run the current batch's data and PREPARE through all tasks; return their reports.

        Called again for another round of the same batch. Raises any exception where the round as a whole failed.
        """

    def run_hooks(self, action: Action, wave: Wave, tasks: Sequence[TaskKey]) -> None:
        """Call `pre_commit` or `pre_rollback` on these tasks. Raises `BoltError`."""

    def read_files(self, locations: Sequence[str]) -> Any:
        """Return a Spark DataFrame of Parquet files."""


class WaveCoordinator:
    """Drives one topology's waves. One thread at a time."""

    def __init__(self, submission: Submission, runner: Runner, folder: Folder) -> None:
        """Make the coordinator of a run.

        Args:
            submission: What was submitted.
            runner: The engine.
            folder: The streaming checkpoint location.
        """
        self._plan = plan = submission.plan
        self._runner = runner
        self._max_retries = submission.max_batch_retries
        self._patience = Patience(submission.patience_ms)
        self._namespaces = Namespaces(plan.provider, self._patience, _custom_states(plan), plan.namespaces())
        self._copy = FolderCopy(folder)
        self._spout = CheckpointSpout(plan.provider.open(plan.namespace(CHECKPOINT_SPOUT_ID, 0)), self._copy)
        self._outbox = Outbox(folder, submission.sinks, runner.read_files)
        self._hooked = {action: hooked_tasks(plan, action) for action in (Action.COMMIT, Action.ROLLBACK)}
        self._fence = NO_FENCE
        self._record = DecisionRecord()
        self._previous: dict[TaskKey, str] = {}

    @property
    def record(self) -> DecisionRecord:
        """The decision that stands."""
        return self._record

    def recover(self, query_id: str = "", *, accept_new: bool = False) -> RecoveryReport:
        """Claim the topology, fence every older driver off, and mend what a dead one left behind.

        Args:
            query_id: Id of the streaming query at the checkpoint location; empty for a new location.
            accept_new: Whether to go on with another query than the state came from.

        Raises:
            StateRegressed: The store went back in time, or lost data. Nothing was written.
            QueryChanged: The state, or the location, belongs to another query or topology. Nothing was written.
            TopologyError: A stateful bolt's parallelism was changed. Nothing was written.
        """
        started = perf_counter()
        survey = Survey(self._plan, self._spout, self._namespaces, self._patience)
        survey.refuse_early(query_id, accept_new=accept_new)
        self._fence = self._patience.until_available(self._spout.claim)
        reach(FaultPoint.CLAIMED)
        start = survey.after_claim(self._fence)
        reach(FaultPoint.FENCES_RAISED)
        plan = start.plan
        self._record = plan.record
        if start.is_new:
            first = replace(
                plan.record, topology=self._plan.topology, parallelism=self._plan.stateful_parallelism()
            )
            self._decide(first)
        else:
            self._write_copy(plan.record)  # an older driver may have died before it came to that
        self._copy.forget_older(self._fence.generation)
        if plan.action is Action.COMMIT:
            found = {name: Committed(head.committed, head.winner) for name, head in start.heads.items()}
            tasks = self._plan.namespaces()
            won = {tasks[name]: each.attempt for name, each in plan.record.winners.items() if name in tasks}
            # Not for a driver that looked before an older one made the query: that one's location is this one's.
            if accept_new and not is_of_query(plan.record, query_id):  # it may be gone, with rows in it
                self._record = self._outbox.without_lost(plan.record)
            self._commit(plan.roll_forward, Wave(plan.record.txid, self._fence, found, won))
        dropped = [name for name in plan.leftovers if name not in plan.roll_forward]
        if dropped:
            self._namespaces.roll_back(self._next_fence(), dropped)
        self._outbox.clean(self._record, self._fence.generation)
        self.check_query(query_id, accept_new=accept_new)
        action = {Action.COMMIT: "rolled forward", Action.ROLLBACK: "rolled back"}.get(
            plan.action, "started" if start.is_new else "resumed"
        )
        elapsed_ms = (perf_counter() - started) * 1000
        reach(FaultPoint.RECOVERED, txid=self._record.txid)
        return RecoveryReport(self._fence.generation, self._record.txid, action, elapsed_ms)

    def check_query(self, query_id: str, *, accept_new: bool = False) -> None:
        """Bind the run to a streaming query; an empty id means one that is yet to be made.

        Raises:
            QueryChanged: The state was computed from another one, and `accept_new` is not set.
        """
        self._record = check_query(self._record, query_id, accept_new=accept_new)

    def is_committed(self, batch: Batch) -> bool:
        """Say whether a batch is part of the state already, and so must be skipped.

        Raises:
            Fenced: It does not follow the one that this driver committed last, because a newer driver goes on.
            QueryChanged: It is the batch committed last by number, but not by its offsets.
            StateRegressed: Batches between the committed one and this one are missing.
        """
        record = self._record
        if record.query_id != batch.query_id:
            return False
        try:
            check_sequence(record, batch.batch_id)
        except AnchorboltError:
            self._check_unchanged(self._fence)  # nothing is lost where a newer driver has committed it
            raise
        known, given = record.offsets_digest, batch.offsets_digest
        if batch.batch_id == record.batch_id and known and given and known != given:
            raise QueryChanged(
                f"batch {batch.batch_id} of streaming query {batch.query_id} is committed, but its offsets are not "
                "those that it had then: the checkpoint location was restored or edited. Restore what it was, "
                "or delete it and set topology.checkpoint.accept.new.query to true for one run."
            )
        return batch.batch_id <= record.batch_id

    def run_wave(self, batch: Batch) -> WaveReport:
        """Run one batch as one transaction, in as many rounds as it takes and is allowed.

        Raises:
            AnchorboltError: Why the batch could not be committed; the state is as before the wave, unless the
                decision had been made: then the next `recover` finishes it.
        """
        state = self._record.state.begin()
        rounds = failures = 0
        outage = self._patience.outage()
        while True:
            rounds += 1
            wave = Wave(state.txid, self._next_fence(), self._record.namespaces, self._previous)
            started = perf_counter()
            try:
                reach(FaultPoint.ROUND_BEGUN, txid=wave.txid)
                reports = self._run_round(wave)
                reach(FaultPoint.ROUND_ENDED, txid=wave.txid)
                decision = self._decision(state.after(Action.PREPARE), batch, reports)
                break
            except Fenced:
                self._fence = NO_FENCE  # as in `_check_unchanged`
                raise
            except StateRegressed:
                raise
            except AnchorboltError as error:
                self._abandon_round(wave)
                # A store without room is not the batch's fault: it costs time, and no retry.
                if isinstance(error, StateUnavailable) and outage.waited(error):
                    continue
                failures += 1
                if isinstance(error, _FINAL) or failures > self._max_retries:
                    raise
                # The last line says who failed and on what; the whole is shown if it fails for good.
                reason = error.message.rstrip().rpartition("\n")[2]
                _log.warning("txid %d failed in round %d and is tried again: %s", state.txid, rounds, reason)
        decided = perf_counter()
        self._decide(decision)
        committed = perf_counter()
        self._previous = {
            report.task: report.attempt for report in reports if report.component in self._plan.stateful_bolts
        }
        self._commit(decision.winners, replace(wave, previous=self._previous))
        reach(FaultPoint.WAVE_ENDED, txid=wave.txid)
        return summarise(
            reports,
            txid=state.txid,
            batch_id=batch.batch_id,
            rounds=rounds,
            round_ms=(decided - started) * 1000,
            decide_ms=(committed - decided) * 1000,
            commit_ms=(perf_counter() - committed) * 1000,
        )

    def check_not_overtaken(self) -> None:
        """Make sure at a run's end that no newer driver has come: without a wave to run it went unnoticed.

        A store that cannot be asked tells nothing, and is no failure any more.

        Raises:
            Fenced: A newer driver has claimed the topology.
            StateRegressed: The store does not know this driver's claim any more.
        """
        try:
            self._spout.check_claim(self._fence)
        except _NOT_OURS_ANY_MORE:
            raise
        except AnchorboltError as error:
            _log.info("whether a newer driver has come is not known: %s", error)

    def close(self) -> None:
        """Let go of the fence, as far as the store can be reached, and close all namespaces."""
        self._let_go()
        self._namespaces.close()
        self._spout.close()

    def _let_go(self) -> None:
        if self._fence == NO_FENCE:  # nothing was claimed
            return
        try:
            self._spout.let_go(self._fence)
        except AnchorboltError as error:
            _log.info("the fence is not let go of: %s", error)

    def _run_round(self, wave: Wave) -> Sequence[TaskReport]:
        try:
            reports = self._runner.run_round(wave)
        except AnchorboltError:
            raise
        except Exception as error:
            raise WaveFailed(
                f"the engine could not finish a round of txid {wave.txid}: {error}", txid=wave.txid
            ) from error
        check_round(self._plan, reports, wave.txid)
        return reports

    def _decision(
        self, state: CheckpointState, batch: Batch, reports: Sequence[TaskReport]
    ) -> DecisionRecord:
        winners = winners_of(self._plan, reports)
        changed = {name: Committed(state.txid, winner.attempt) for name, winner in winners.items()}
        outbox = tuple(report.sink for report in reports if report.sink is not None)
        return DecisionRecord(
            topology=self._plan.topology,
            state=state,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            offsets_digest=batch.offsets_digest,
            winners=winners,
            namespaces={**self._record.namespaces, **changed},
            outbox=outbox,
            parallelism={**self._record.parallelism, **self._plan.stateful_parallelism()},
            schemas=check_schemas(self._record, outbox),
            state_schemas={**self._record.state_schemas, **later_versions(self._plan.state_schema_versions)},
        )

    def _abandon_round(self, wave: Wave) -> None:
        """Roll a failed round back: its fence is raised everywhere, so that its tasks can do no more harm."""
        reach(FaultPoint.ROUND_FAILED, txid=wave.txid)
        # First of all: a driver that was overtaken must neither write nor blame what its successor did.
        self._check_unchanged(wave.fence)
        self._run_hooks(Action.ROLLBACK, wave)
        self._namespaces.roll_back(self._next_fence())
        reach(FaultPoint.ROLLED_BACK, txid=wave.txid)
        self._previous = {}
        self._outbox.drop_round(wave.fence)

    def _run_hooks(self, action: Action, wave: Wave) -> None:
        """Call the bolts' hooks, again where a worker was lost meanwhile; what a hook itself raises ends the run."""
        tasks = self._hooked[action]
        for round_number in range(self._max_retries + 1 if tasks else 0):
            try:
                self._runner.run_hooks(action, wave, tasks)
                return
            except AnchorboltError:
                raise
            except Exception as error:
                failure = WaveFailed(
                    f"the hooks of txid {wave.txid} could not be run: {error}", txid=wave.txid
                )
                if round_number == self._max_retries:
                    raise failure from error
                _log.warning("%s; they are tried again", failure)

    def _decide(self, record: DecisionRecord) -> None:
        self._patience.until_available(lambda: self._spout.write(self._fence, record))
        reach(FaultPoint.DECIDED, txid=record.txid)
        self._write_copy(record)
        self._record = record
        reach(FaultPoint.DECISION_COPIED, txid=record.txid)

    def _write_copy(self, record: DecisionRecord) -> None:
        try:
            self._spout.write_copy(self._fence, record)
        except OSError as error:
            raise StateUnavailable(
                f"the copy of decision {record.txid} cannot be written to the checkpoint location: {error}. Make room "
                "there, or make it writable, and start again: the run goes on where it was."
            ) from error

    def _commit(self, winners: Mapping[str, Winner], wave: Wave) -> None:
        """Commit what was decided; every step can be repeated, and is, after a crash."""
        record = self._record
        self._run_hooks(Action.COMMIT, wave)
        reach(FaultPoint.HOOKS_CALLED, txid=record.txid)
        fence = self._next_fence()
        self._namespaces.commit(fence, record.txid, winners)
        reach(FaultPoint.NAMESPACES_COMMITTED, txid=record.txid)
        self._outbox.publish(record, lambda: self._check_claim(fence))
        committed = record.committed()
        self._patience.until_available(lambda: self._spout.write(fence, committed))
        self._record = committed
        reach(FaultPoint.COMMITTED, txid=record.txid)
        if record.schemas:
            self._outbox.clean(committed, fence.generation)

    def _check_claim(self, fence: Fence) -> None:
        self._patience.until_available(lambda: self._spout.check_claim(fence))

    def _check_unchanged(self, fence: Fence) -> None:
        try:
            self._patience.until_available(lambda: self._spout.check_unchanged(fence, self._record))
        except _NOT_OURS_ANY_MORE:
            self._fence = NO_FENCE  # another driver may hold it: this one has nothing to let go of
            raise

    def _next_fence(self) -> Fence:
        self._fence = Fence(self._fence.generation, self._fence.seq + 1)
        return self._fence


def _custom_states(plan: ExecutionPlan) -> Callable[[str], State | None]:
    tasks = plan.namespaces()
    return lambda namespace: plan.new_state(*tasks[namespace]) if namespace in tasks else None
