"""The checkpoint spout `$checkpointspout`: drives every transaction through the topology, and recovers after a crash.

It decides nothing by itself: `state_machine` says which step follows, `recovery` and `startup_checks` judge what a
starting driver finds, and a `Transaction` carries the steps out. The driver moves the state of every task (`Namespaces`
in `ports`); COMMIT and ROLLBACK travel to a task only if its bolt has a hook for them.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from anchorbolt.checkpoint.decision import Committed, DecisionRecord
from anchorbolt.checkpoint.decision_log import NOT_OURS_ANY_MORE, DecisionLog
from anchorbolt.checkpoint.ports import Batch, Layout, Ports
from anchorbolt.checkpoint.recovery import bound_to_query, check_sequence, is_of_query, plan_recovery
from anchorbolt.checkpoint.startup import Startup
from anchorbolt.checkpoint.startup_checks import query_problem
from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.checkpoint.transaction import Transaction, new_record
from anchorbolt.errors import (
    AnchorboltError,
    CodecMismatch,
    ConfigError,
    Fenced,
    QueryChanged,
    StateCorrupted,
    StateUnavailable,
    TopologyError,
)
from anchorbolt.faults.points import FaultPoint, reach

_log = logging.getLogger("anchorbolt.checkpoint")

_FINAL = (StateCorrupted, CodecMismatch, ConfigError, QueryChanged, TopologyError)
"""Errors that another round of the same batch cannot cure."""


@dataclass(frozen=True)
class RecoveryReport:
    """The result of a driver's start.

    Attributes:
        generation: The generation that the driver claimed, from 1.
        txid: The last committed transaction after recovery; -1 before the first.
        action: `rolled forward`, `rolled back`, `resumed` if there was nothing to do, `started` for a new topology.
        ms: Time taken, in ms.
    """

    generation: int
    txid: int
    action: str
    ms: float


@dataclass(frozen=True)
class CommittedWave:
    """A wave that has committed, with the engine's reports of its last round."""

    txid: int
    batch_id: int
    rounds: int  # 1 if nothing failed
    reports: Sequence[Any]
    round_ms: float  # the last round
    decide_ms: float
    commit_ms: float


class CheckpointSpout:
    """Drives one topology's transactions, one at a time. Not thread-safe."""

    def __init__(self, layout: Layout, log: DecisionLog, ports: Ports, *, max_batch_retries: int) -> None:
        self._layout = layout
        self._log = log
        self._ports = ports
        self._max_batch_retries = max_batch_retries
        self._last = Transaction(layout, log, ports, DecisionRecord(), {}, {})

    @property
    def record(self) -> DecisionRecord:
        """The last decision."""
        return self._last.record

    def recover(self, query_id: str = "", *, accept_new: bool = False) -> RecoveryReport:
        """Claim the topology, fence off every older driver, and finish or undo what a dead one left behind.

        Args:
            query_id: Id of the streaming query at the checkpoint location; empty for a new location.
            accept_new: Whether to continue with another query than the state came from.

        Raises:
            StateRegressed: The store went back in time, or lost data. Nothing was written.
            QueryChanged: The state, or the location, belongs to another query or topology. Nothing was written.
            TopologyError: A stateful bolt's parallelism was changed. Nothing was written.
        """
        started = perf_counter()
        startup = Startup(self._layout, self._log, self._ports.namespaces, query_id, accept_new=accept_new)
        startup.refuse_early()
        fence = self._log.claim()
        reach(FaultPoint.CLAIMED)
        found = startup.raise_fence(fence)
        reach(FaultPoint.FENCES_RAISED)
        plan = plan_recovery(found.stored, found.copied, found.heads)
        record = plan.record
        # Skip this if an older driver created the query after this driver had read the location: both then use the
        # same checkpoint location, and no rows are lost.
        if plan.action is Action.COMMIT and accept_new and not is_of_query(record, query_id):
            record = self._ports.outbox.without_lost(record)
        tasks = self._layout.tasks
        winners = {tasks[name]: each.attempt for name, each in record.winners.items() if name in tasks}
        committed = {name: Committed(head.committed, head.winner) for name, head in found.heads.items()}
        transaction = Transaction(self._layout, self._log, self._ports, record, winners, committed)
        transaction.fence = fence
        self._last = transaction
        if found.stored is None:
            transaction.decide(new_record(self._layout, record), {})
        else:
            self._log.copy(plan.record)  # an older driver may have died before it did
        self._log.forget_older_copies()
        if plan.action is Action.COMMIT:
            transaction.commit(plan.roll_forward)
        dropped = [name for name in plan.leftovers if name not in plan.roll_forward]
        if dropped:
            self._ports.namespaces.roll_back(self._log.next_fence(), dropped)
        self._ports.outbox.clean(self.record, fence.generation)
        self.bind_query(query_id, accept_new=accept_new)
        action = plan.outcome(is_new=found.stored is None)
        elapsed_ms = (perf_counter() - started) * 1000
        reach(FaultPoint.RECOVERED, txid=self.record.txid)
        return RecoveryReport(fence.generation, self.record.txid, action, elapsed_ms)

    def bind_query(self, query_id: str, *, accept_new: bool = False) -> None:
        """Bind the run to a streaming query; an empty id means a query that Spark has yet to create.

        Raises `QueryChanged` if the state was computed from another query, and `accept_new` is not set.
        """
        problem = None if accept_new else query_problem(self.record, query_id)
        if problem is not None:
            raise problem
        self._last.record = bound_to_query(self.record, query_id)

    def is_committed(self, batch: Batch) -> bool:
        """Return whether a batch is part of the state already, and so must be skipped.

        Raises:
            Fenced: The batch does not follow the last one of this driver, because a newer driver runs the topology.
            QueryChanged: The batch has the number of the last committed batch, but other offsets.
            StateRegressed: Batches between the committed one and this one are missing.
        """
        record = self.record
        if record.query_id != batch.query_id:
            return False
        try:
            check_sequence(record, batch.batch_id)
        except AnchorboltError:
            # If a newer driver has committed the batches in between, nothing is lost.
            self._log.check_unchanged(record)
            raise
        known, given = record.offsets_digest, batch.offsets_digest
        if batch.batch_id == record.batch_id and known and given and known != given:
            raise QueryChanged(
                f"batch {batch.batch_id} of streaming query {batch.query_id} is committed, but it had other offsets "
                "then: the checkpoint location was restored or edited. Restore it to where it was, "
                "or delete it and set topology.checkpoint.accept.new.query to true for one run."
            )
        return batch.batch_id <= record.batch_id

    def run_wave(self, batch: Batch) -> CommittedWave:
        """Run one batch as one transaction, in as many rounds as it takes and is allowed.

        Raises:
            AnchorboltError: Why the batch could not be committed. The state is as before the wave; or, if the
                transaction was decided, the next `recover` finishes it.
        """
        transaction = self._last.begin()
        rounds = failures = 0
        backoff = self._ports.retry.backoff()
        while True:
            rounds += 1
            started = perf_counter()
            try:
                prepared, decision = transaction.prepare(batch)
                break
            except Fenced:
                self._log.abandon()  # another driver may hold the fence, so there is nothing to release
                raise
            except NOT_OURS_ANY_MORE:
                raise
            except AnchorboltError as error:
                transaction.roll_back()
                # A store that does not answer is not the batch's fault: it costs time, but none of the retries.
                if isinstance(error, StateUnavailable) and backoff.sleep_or_give_up(error):
                    continue
                failures += 1
                if isinstance(error, _FINAL) or failures > self._max_batch_retries:
                    raise
                # The last line says who failed and on what; the whole is shown if it fails for good.
                reason = error.message.rstrip().rpartition("\n")[2]
                _log.warning("txid %d failed in round %d and is tried again: %s", transaction.txid, rounds, reason)
        decided = perf_counter()
        transaction.decide(decision, prepared.attempts)
        self._last = transaction
        committed = perf_counter()
        transaction.commit(decision.winners)
        reach(FaultPoint.WAVE_ENDED, txid=transaction.txid)
        return CommittedWave(
            txid=transaction.txid,
            batch_id=batch.batch_id,
            rounds=rounds,
            reports=prepared.reports,
            round_ms=(decided - started) * 1000,
            decide_ms=(committed - decided) * 1000,
            commit_ms=(perf_counter() - committed) * 1000,
        )

    def check_not_overtaken(self) -> None:
        """Check at the end of a run that no newer driver has come: without a wave to run, nothing else notices.

        Raises:
            Fenced: A newer driver has claimed the topology.
            StateRegressed: The store no longer knows this driver's claim.
        """
        self._log.check_not_overtaken()

    def close(self) -> None:
        """Release the fence, if the store can be reached, and close all namespaces."""
        self._log.release()
        self._ports.namespaces.close()
        self._log.close()
