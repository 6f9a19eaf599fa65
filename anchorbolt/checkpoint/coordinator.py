"""The checkpoint coordinator: drives every transaction through the topology, and recovers after a crash.

In Storm it is a spout, `$checkpointspout`, and its namespaces and messages keep this name.

It runs the steps. `state_machine` lists the allowed steps, `recovery` and `startup` check the records and heads at a
start, and a `Transaction` executes each step. The driver commits or rolls back the state of every task (`namespaces`),
or lets executors commit it. COMMIT and ROLLBACK are sent to a task only if its bolt has a hook for them.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, sleep
from typing import Any

from anchorbolt import errors
from anchorbolt.checkpoint.changed_job import affected_states
from anchorbolt.checkpoint.current_wave import CurrentWave, FailedRound
from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Acked, Committed, DecisionRecord
from anchorbolt.checkpoint.decision_log import NOT_OURS_ANY_MORE, Records
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.losses import Losses
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.recovery import bound_to_query, check_sequence, is_of_query, plan_recovery
from anchorbolt.checkpoint.startup import Found, committer_problems, namespace_problems, query_problem, record_problems
from anchorbolt.checkpoint.state_machine import BEFORE_FIRST_BATCH, Action, Phase
from anchorbolt.checkpoint.transaction import Run, Transaction
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.contract import NamespaceHead
from anchorbolt.state_backends.rules import prefix_of
from anchorbolt.state_backends.state import NOTHING_COMMITTED, Fence
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.util.messages import fields_of, reason_of
from anchorbolt.util.retry import RetryPolicy
from anchorbolt.util.times import LATEST_MS

_log = logging.getLogger("anchorbolt.checkpoint")

_FINAL = (errors.StateCorrupted, errors.CodecMismatch, errors.ConfigError, errors.QueryChanged, errors.TopologyError)
"""Errors that another round of the same batch cannot fix."""

FAILURES_KEPT = 10
_READS = 5
_PAUSE_S = 0.3


@dataclass(frozen=True)
class RecoveryReport:
    """The result of a driver's start."""

    generation: int  # the driver's, counted from 1
    txid: int  # the last committed transaction after recovery; -1 before the first
    # `rolled forward`, `rolled back`, `resumed` if there was nothing to do, `started` for a new topology; `rescaled` if
    # state was also moved to another number of tasks
    action: str
    ms: float


@dataclass(frozen=True)
class CommittedWave:
    """A wave that has committed, with the engine's reports of its last round."""

    txid: int
    batch_id: int
    rounds: int  # 1 if nothing failed
    losses: int  # of the rounds before the last, the number that failed by a loss of Spark or the network
    round_failures: Sequence[FailedRound]  # the first ten
    reports: Sequence[Any]
    dead_letters: Sequence[DeadLetter]
    failed_ms: float  # the rounds before the last, and the time between them
    round_ms: float  # the last round
    decide_ms: float
    commit_ms: float


class CheckpointCoordinator:
    """Drives one topology's transactions, one at a time. Not thread-safe."""

    def __init__(self, run: Run, retry: RetryPolicy, *, max_batch_retries: int, extra_rounds: int = 0) -> None:
        """Create it; a wave that fails for good gets `extra_rounds` more, to leave out the failing tuples."""
        self._run = run
        self._retry = retry
        self._max_batch_retries = max_batch_retries
        self._extra_rounds = extra_rounds
        self._last = Transaction(run, DecisionRecord(), {}, {})
        self._losses: Losses | None = None  # of the current wave
        self._current: CurrentWave | None = None

    @property
    def losses(self) -> int:
        """The losses of the current wave so far; 0 between two waves."""
        return 0 if self._losses is None else self._losses.number

    @property
    def current_wave(self) -> CurrentWave | None:
        """The wave that runs now; None between two waves. May be read on any thread."""
        return self._current

    @property
    def waiting(self) -> dict[str, float]:
        """What the run waits for now, such as its store, and the seconds so far. May be read on any thread."""
        return self._retry.waiting

    @property
    def record(self) -> DecisionRecord:
        return self._last.record

    @property
    def must_recover(self) -> bool:
        """Whether a wave has failed after its decision: no wave can follow before the next `recover`.

        Read this between two waves: during a wave it is True from the decision to the commit.
        """
        return self.record.state.phase is Phase.COMMITTING

    def recover(self, query_id: str = "", *, accept_new: bool = False, accept_loss: bool = False) -> RecoveryReport:
        """Claim the topology, fence off every older driver, and finish or undo the last wave of a dead driver.

        `query_id` is the streaming query at the checkpoint location, empty for a new location. With `accept_new` it may
        differ from the query of the state. With `accept_loss` the topology may leave state behind.

        Raises the first reason to refuse the start. The checks of `startup` run before anything is written, and the
        checks of the namespaces again after the claim. A decided wave for a removed sink is refused later, when its
        rows are published.
        """
        started = perf_counter()
        log, layout, outbox = self._run.log, self._run.layout, self._run.outbox
        self._refuse_early(query_id, accept_new=accept_new, accept_loss=accept_loss)
        fence = log.claim()
        reach(FaultPoint.CLAIMED)
        found = self._raise_fences(fence, query_id)
        reach(FaultPoint.FENCES_RAISED)
        plan = plan_recovery(found.stored, found.copied, found.heads)
        record = plan.record
        outbox.begin_run(layout.topology, record, log.check_claim)
        # Skip this if an older driver created the query after this driver had read the location: both then use the
        # same checkpoint location, and no rows are lost.
        if plan.action is Action.COMMIT and accept_new and not is_of_query(record, query_id):
            record = outbox.without_lost(record)
        winners = {layout.tasks[name]: each.attempt for name, each in record.winners.items() if name in layout.tasks}
        committed = {
            name: Committed(head.committed, head.winner)
            for name, head in found.heads.items()
            if head.committed != NOTHING_COMMITTED
        }
        self._last = transaction = Transaction(self._run, record, winners, committed)
        transaction.fence = fence
        if found.stored is None:
            # A new topology: write its first record.
            first = replace(record, topology=layout.topology, parallelism=dict(layout.parallelism))
            if layout.batch_spout:
                first = replace(first, batch_spout=layout.batch_spout, state=BEFORE_FIRST_BATCH)
            transaction.decide(first, {})
        else:
            log.copy(plan.record)  # an older driver may have died before it did
        log.forget_older_copies()
        if plan.action is Action.COMMIT:
            transaction.commit(plan.roll_forward)
        dropped = [name for name in plan.leftovers if name not in plan.roll_forward]
        if dropped:
            self._run.namespaces.roll_back(log.next_fence(), dropped)
        outbox.clean(self.record, fence.generation)
        action = plan.outcome(is_new=found.stored is None)
        if self._rescale():
            action = "rescaled"
        self._record_ackers()
        self.bind_query(query_id, accept_new=accept_new)
        elapsed_ms = (perf_counter() - started) * 1000
        reach(FaultPoint.RECOVERED, txid=self.record.txid)
        return RecoveryReport(fence.generation, self.record.txid, action, elapsed_ms)

    def changes(self) -> list[str]:
        """Read the records of the last changes that commands made to the state, oldest first."""
        return self._run.log.changes()

    def _rescale(self) -> bool:
        """Divide the state of bolts whose number of tasks has changed, if the run wants this; return whether it did."""
        run, record = self._run, self.record
        rescaled = record if run.rescale is None else run.rescale(record, run.log)
        if rescaled is record:
            return False
        changed = rescaled.winners
        winners = {run.layout.tasks[name]: each.attempt for name, each in changed.items() if name in run.layout.tasks}
        committed = {**self._last.committed, **{name: rescaled.namespaces[name] for name in changed}}
        self._last = Transaction(run, rescaled, winners, committed)
        return True

    def _record_ackers(self) -> None:
        """Write a higher number of ackers into the record, before any of them stages an update.

        If this driver dies in its first wave, its successor may run with fewer ackers. Only the record tells it which
        ackers may have updates to roll back.
        """
        ackers = self._run.layout.parallelism.get(ACKER_ID, 0)
        if ackers > self.record.parallelism.get(ACKER_ID, 0):
            self._last.record = self.record.with_ackers(ackers)
            self._run.log.write(self._last.record)

    def bind_query(self, query_id: str, *, accept_new: bool = False) -> None:
        """Bind the run to a streaming query; an empty id means a query that Spark has not created yet.

        Raises `QueryChanged` if the state was computed from another query, unless `accept_new` is set.
        """
        problem = None if accept_new else query_problem(self.record, query_id)
        if problem is not None:
            raise problem
        self._last.record = bound_to_query(self.record, query_id)

    def is_committed(self, batch: Batch) -> bool:
        """Return whether a batch is already part of the state, and must be skipped.

        Raises `Fenced`, `QueryChanged` or `StateRegressed` unless it is the batch after the last committed one, or that
        one with the same offsets.
        """
        record = self.record
        if record.query_id != batch.query_id:
            return False
        try:
            check_sequence(record, batch.batch_id)
        except errors.AnchorboltError:
            # If a newer driver has committed the batches in between, nothing is lost.
            self._run.log.check_unchanged(record)
            raise
        known, given = record.offsets_digest, batch.offsets_digest
        if batch.batch_id == record.batch_id and known and given and known != given:
            raise errors.QueryChanged(
                f"batch {batch.batch_id} of streaming query {batch.query_id} is committed, but it had other offsets "
                "then: the checkpoint location was restored or edited. Restore it to where it was, "
                "or delete it and set topology.checkpoint.accept.new.query to true for one run."
            )
        return batch.batch_id <= record.batch_id

    def run_wave(self, batch: Batch) -> CommittedWave:
        """Run one batch as one transaction, in at most `max_batch_retries` + 1 rounds, plus the extra rounds.

        Three kinds of rounds do not count: rounds that fail because the store does not answer, limited only by time;
        rounds with losses of Spark or the network, within the patience of `Losses`; and rounds that are repeated
        without failed tuple trees (each leaves out some). If this raises, either nothing of the wave is
        committed, or the wave is decided and the next `recover` commits it.
        """
        try:
            return self._run_wave(batch)
        finally:
            self._current = None

    def _run_wave(self, batch: Batch) -> CommittedWave:
        transaction = self._last.begin()
        self._current = current = CurrentWave(transaction.txid)
        losses = self._losses = Losses(self._retry.timeout_s, self._max_batch_retries)
        rounds, failures, began = 0, 0, perf_counter()
        backoff = self._retry.backoff()
        while True:
            rounds += 1
            self._current = current = replace(current, round=rounds)
            started = perf_counter()
            try:
                prepared, decision = transaction.prepare(batch)
                backoff.end()
                if not prepared.repeat:
                    break
                transaction.roll_back()
            except errors.Fenced:
                self._run.log.abandon()  # another driver may hold the fence, so do not release it
                raise
            except NOT_OURS_ANY_MORE:
                raise
            except errors.AnchorboltError as error:
                failed = FailedRound.of(error)
                failed_rounds = (*current.failures, failed)[:FAILURES_KEPT]
                self._current = current = replace(current, failure=failed.reason, failures=failed_rounds)
                transaction.roll_back()
                # A store that does not answer is not the batch's fault: it costs time, but no retry.
                if isinstance(error, errors.StateUnavailable) and backoff.sleep_or_give_up(error):
                    continue
                if losses.bear(error, f"txid {transaction.txid}"):
                    transaction.suspects_tuples = losses.is_used_up
                    continue
                failures += 1
                if isinstance(error, _FINAL) or failures > self._max_batch_retries + self._extra_rounds:
                    raise
                self._warn(transaction.txid, failures, error)
        decided = perf_counter()
        self._current = current = replace(current, phase="decide")
        transaction.decide(decision, prepared.task_winners)
        self._last = transaction
        committed = perf_counter()
        self._current = replace(current, phase="commit")
        transaction.commit(decision.winners)
        self._losses = None
        reach(FaultPoint.WAVE_ENDED, txid=transaction.txid)
        return CommittedWave(
            txid=transaction.txid,
            batch_id=batch.batch_id,
            rounds=rounds,
            losses=losses.number,
            round_failures=current.failures,
            reports=prepared.reports,
            dead_letters=prepared.dead_letters,
            failed_ms=(started - began) * 1000,
            round_ms=(decided - started) * 1000,
            decide_ms=(committed - decided) * 1000,
            commit_ms=(perf_counter() - committed) * 1000,
        )

    def _warn(self, txid: int, failures: int, error: errors.AnchorboltError) -> None:
        """Log a failed round in one line. The error is shown in full if the wave fails for good."""
        tries = self._max_batch_retries + 1
        following = "is tried again" if failures < tries else "goes on without what fails"
        _log.warning(
            "txid %d failed in try %d of %d and %s: %s",
            txid,
            min(failures, tries),
            tries,
            following,
            reason_of(error),
            extra={"txid": txid, **fields_of(error)},
        )

    def keep_acked(self, known: Acked) -> None:
        """Keep only these acks of the spouts in the record, because the sources know of all others.

        Does nothing if nothing changes, or if a wave has failed after its decision: then only the next `recover` may
        write.
        """
        if not self.must_recover and self.record.acked_after(known) != self.record.acked:
            self._write_again(self.record.with_acked(known))

    def end_event_time(self, bolt: str) -> None:
        """Move a bolt's watermark behind all times: the next wave closes its windows. Between two waves only."""
        self._write_again(self.record.with_watermark(bolt, LATEST_MS))

    def begin_batches(self, *, waits: bool) -> None:
        """Note that from now on batches of a transactional topology may be committed; call this before the first wave.

        `waits` says whether a batch was begun but not committed. Raises `TopologyError` if a committer with a journal
        may have begun to commit it with another number of tasks.
        """
        record, committers = self.record, self._run.layout.committers
        if waits:
            _raise_first(committer_problems(record, committers))
        if record.committers != committers:
            self._write_again(record.with_committers(committers))

    def end_batches(self) -> None:
        """Note that no batch is being committed any more; call this after a run without an error, if no batch waits."""
        if self.record.committers:
            self._write_again(self.record.with_committers({}))

    def _write_again(self, record: DecisionRecord) -> None:
        self._run.log.next_fence()  # so that a late repetition of the write before is refused
        self._last.record = record
        self._run.log.write(record)

    def check_not_overtaken(self) -> None:
        """Check at the end of a run that no newer driver has come: without a wave, nothing else checks it."""
        self._run.log.check_not_overtaken()

    def close(self) -> None:
        """Release the fence, if the store can be reached, and close all namespaces."""
        self._run.outbox.end_run()
        self._run.log.release()
        self._run.namespaces.close()
        self._run.log.close()

    def _refuse_early(self, query_id: str, *, accept_new: bool, accept_loss: bool) -> None:
        """Check everything before anything is written, even the fence.

        While an older driver commits, a store can look inconsistent. So a refusal counts only if the records have not
        changed meanwhile.
        """
        log = self._run.log
        for number in range(1, _READS + 1):
            records = log.load()
            try:
                _raise_first(record_problems(self._run.layout, Found(*records, query_id), accept_new=accept_new))
                self._open(records)
                self._check_namespaces(records, query_id, self._run.namespaces.heads(), log.stored_generation())
                if not accept_loss:
                    self._refuse_loss(records)
                return
            except (errors.StateRegressed, errors.CodecMismatch):
                if number == _READS or log.load() == records:
                    raise
                sleep(_PAUSE_S)

    def _refuse_loss(self, records: Records) -> None:
        """Refuse a topology that would leave state behind, or look for keys in other tasks."""
        layout, (record, _) = self._run.layout, records
        if record is None:
            return
        prefix = prefix_of(self._run.log.namespace)
        for state in affected_states(layout, record, prefix):
            raise state.problem(layout, record, self._run.namespaces.count(state.namespaces))

    def _raise_fences(self, fence: Fence, query_id: str) -> Found:
        """Raise the fence in every namespace, then read, then check the namespaces again."""
        records = self._run.log.load()
        self._open(records)
        return self._check_namespaces(records, query_id, self._run.namespaces.raise_fence(fence), fence.generation)

    def _open(self, records: Records) -> None:
        of_records = (name for record in records if record is not None for name in record.namespaces)
        self._run.namespaces.open(sorted({*self._run.layout.tasks, *of_records}))

    def _check_namespaces(
        self, records: Records, query_id: str, heads: dict[str, NamespaceHead], generation: int
    ) -> Found:
        layout, is_custom = self._run.layout, self._run.namespaces.is_custom
        headers = {name: CUSTOM_HEADER if is_custom(name) else header for name, header in layout.headers.items()}
        found = Found(*records, query_id, heads, self._run.log.namespace, generation)
        _raise_first(namespace_problems(replace(layout, headers=headers), found))
        return found


def _raise_first(problems: Iterable[errors.AnchorboltError]) -> None:
    for problem in problems:
        raise problem
