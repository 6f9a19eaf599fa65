"""One wave's transaction, from begin to COMMITTED. Each step of the protocol is one method.

```
begin    COMMITTED(t-1) → PREPARING(t)
prepare  the batch and PREPARE(t) go through all tasks under a new fence; every task stages and seals an attempt
decide   the decision record COMMITTING(t) names the winning attempts: durable in the store, then copied
commit   hooks, namespaces, outbox; then the record says COMMITTED(t). Every step may be repeated
rollback the updates of a failed round are dropped, and PREPARING(t) starts again with another round
```
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from anchorbolt.bolts.column_types import Misfit, grown, has_evolved, read_schema, schema_of
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.changed_job import left_behind_after
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner, carried_spout_tasks
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.letters.writers import DeadLetterWriter
from anchorbolt.checkpoint.namespaces import Namespaces
from anchorbolt.checkpoint.outbox import Outbox
from anchorbolt.checkpoint.ports import ROLLED_BACK_KEPT, Batch, Layout, PreparedRound, Round, TaskKey, Tasks
from anchorbolt.checkpoint.state_machine import Action, CheckpointState, CheckpointTuple
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.errors import BoltError, ConfigError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.serialization.codecs import FIRST_VERSION
from anchorbolt.state_backends.state import NO_FENCE, Fence

_log = logging.getLogger("anchorbolt.checkpoint")


@dataclass(frozen=True)
class Run:
    """The objects that all transactions of a run use."""

    layout: Layout
    log: DecisionLog
    tasks: Tasks
    namespaces: Namespaces
    outbox: Outbox
    dead_letters: DeadLetterWriter | None = None  # None without dead letters
    clock: Callable[[], float] = time.time  # seconds since 1970, for the clock of the waves
    # Moves the state of bolts whose number of tasks has changed, in one more transaction, and returns its record; None
    # to refuse such a change.
    rescale: Callable[[DecisionRecord, DecisionLog], DecisionRecord] | None = None


class Transaction:
    """The transaction of one wave.

    Until the decision, `record`, `task_winners` and `committed` are those of the previous transaction.
    """

    def __init__(
        self,
        run: Run,
        record: DecisionRecord,
        task_winners: Mapping[TaskKey, str],  # by task of a stateful bolt, even if it changed nothing
        committed: Mapping[str, Committed],  # the last committed transaction, by namespace
    ) -> None:
        self._run = run
        self.state: CheckpointState = record.state
        self.record = record
        self.task_winners = task_winners
        self.committed = committed
        self.fence: Fence = NO_FENCE  # of the current round
        self._rolled_back: tuple[int, ...] = ()  # see `Round.rolled_back`
        self._columns: Mapping[str, bytes] = record.schemas  # for the tasks of the next round
        self.suspects_tuples = False  # see `Round.suspects_tuples`
        self._clock = record.clock  # see `Round.clock`

    @property
    def txid(self) -> int:
        return self.state.txid

    def begin(self) -> Transaction:
        """Return the next transaction, in PREPARING."""
        following = Transaction(self._run, self.record, self.task_winners, self.committed)
        following.state = self.state.begin()
        following._rolled_back = self._rolled_back
        following._clock = max(self.record.clock, int(self._run.clock() * 1000))
        return following

    def prepare(self, batch: Batch) -> tuple[PreparedRound, DecisionRecord]:
        """Run a round; return the prepared round, and the decision for it.

        If it raises, the round failed, and `roll_back` must follow.
        """
        self.fence = self._run.log.next_fence()
        reach(FaultPoint.ROUND_BEGUN, txid=self.txid)
        prepared = self._run.tasks.prepare(self._round())
        reach(FaultPoint.ROUND_ENDED, txid=self.txid)
        self._run.outbox.check_prepared(self.txid, prepared.files)
        columns, problem = _with_columns_of(self._columns, prepared.files)
        if problem and columns != self._columns:
            # Only the tasks can find the tuple that does not fit, if they get the columns before the round.
            self._columns = columns
            return replace(prepared, repeat=True), self.record
        if problem:
            raise BoltError(
                f"{problem}. Declare the column's type: schema=pyarrow.schema(…).",
                component=prepared.files[0].component,
                task_index=prepared.files[0].task_index,
            )
        return prepared, self._decision(batch, prepared, columns)

    def decide(self, record: DecisionRecord, task_winners: Mapping[TaskKey, str]) -> None:
        """Write the decision durably. From here on the transaction can only be committed."""
        self._run.log.decide(record)
        self.state = record.state
        self.record = record
        self.task_winners = task_winners

    def commit(self, namespaces: Mapping[str, Winner]) -> None:
        """Commit the decided winners of these namespaces. After a crash, recovery repeats this as a whole."""
        record = self.record
        self._run.tasks.send(CheckpointTuple(self.txid, Action.COMMIT), self._round())
        reach(FaultPoint.HOOKS_CALLED, txid=self.txid)
        fence = self._run.log.next_fence()
        self._run.namespaces.commit(fence, self.txid, namespaces)
        reach(FaultPoint.NAMESPACES_COMMITTED, txid=self.txid)
        self._run.outbox.publish(record, self._run.log.check_claim)
        if record.dead_letters:
            self._run.log.check_claim()
            self._write_dead_letters(record)
        done = record.marked_committed()
        self._run.log.write(done)
        self.state = self.state.after(Action.COMMIT)
        self.record = done
        self.committed = done.namespaces
        reach(FaultPoint.COMMITTED, txid=self.txid)
        if record.schemas:
            self._run.outbox.clean(done, fence.generation)

    def roll_back(self) -> None:
        """Drop the staged updates of the failed round, and raise the fence everywhere, so that its tasks do no harm."""
        reach(FaultPoint.ROUND_FAILED, txid=self.txid)
        self._rolled_back = (*self._rolled_back, self.fence.seq)[-ROLLED_BACK_KEPT:]
        # First: an overtaken driver must not write, and must not mistake its successor's changes for lost data.
        self._run.log.check_unchanged(self.record)
        self._run.tasks.send(CheckpointTuple(self.txid, Action.ROLLBACK), self._round())
        self._run.namespaces.roll_back(self._run.log.next_fence())
        reach(FaultPoint.ROLLED_BACK, txid=self.txid)
        self.task_winners = {}  # if trees are tracked, no stateful instance is reused after a failed round
        self._run.outbox.drop_round(self.fence)

    def _write_dead_letters(self, record: DecisionRecord) -> None:
        if self._run.dead_letters is None:
            raise ConfigError(
                f"the decided txid {record.txid} has {len(record.dead_letters)} dead letters, but topology.dead.letter "
                "is not set any more. Start once more with it, so that they are written.",
                key="topology.dead.letter",
            )
        self._run.dead_letters.write(record.txid, record.dead_letters)
        for letter in record.dead_letters:
            task = {"component": letter.component, "task": letter.task_index} if letter.component else {}
            fields = {"txid": record.txid, "spout": letter.spout, **task}
            _log.warning("txid %d: %s", record.txid, letter, extra=fields)

    def _round(self) -> Round:
        times = self.record.times
        return Round(
            self.txid,
            self.fence,
            self.committed,
            self.task_winners,
            rolled_back=self._rolled_back,
            suspects_tuples=self.suspects_tuples,
            columns=self._columns,
            clock=self._clock,
            watermarks={name: each.watermark for name, each in times.items() if each.watermark is not None},
            expiring=frozenset(name for name, each in times.items() if each.due.expiry is not None),
        )

    def _decision(self, batch: Batch, prepared: PreparedRound, columns: Mapping[str, bytes]) -> DecisionRecord:
        before, layout = self.record, self._run.layout
        changed = {name: Committed(self.txid, winner.attempt) for name, winner in prepared.winners.items()}
        versions = {name: each for name, each in layout.schema_versions.items() if each > FIRST_VERSION}
        return DecisionRecord(
            topology=layout.topology,
            state=self.state.after(Action.PREPARE),
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            offsets_digest=batch.offsets_digest,
            winners=prepared.winners,
            namespaces={**before.namespaces, **changed},
            outbox=prepared.files,
            parallelism={**before.parallelism, **layout.parallelism},
            groupings={**before.groupings, **layout.groupings},
            left_behind=left_behind_after(before, layout),
            schemas=columns,
            state_schemas={**before.state_schemas, **versions},
            acked=before.acked_after(prepared.acked),
            dead_letters=prepared.dead_letters,
            replayed=before.replayed_after(prepared.replayed),
            spout_tasks=carried_spout_tasks(before.spout_tasks, layout.spout_tasks),
            batch_spout=layout.batch_spout,
            batch=prepared.batch,
            committers=layout.committers,
            journals=tuple(sorted({*before.journals, *prepared.journals})),
            clock=self._clock,
            times={**before.times, **self._times_after(prepared)},
        )

    def _times_after(self, prepared: PreparedRound) -> dict[str, BoltTimes]:
        event_times, clock = self._run.layout.event_times, self._clock
        before = {name: self.record.times.get(name, BoltTimes()) for name in prepared.times}
        behind = {name for name, wave in prepared.times.items() if before[name].is_behind(wave, clock)}
        after = {}
        for name, wave in prepared.times.items():
            event_time = event_times.get(name)
            is_held = event_time is not None and not behind.isdisjoint(event_time.upstream)
            after[name] = before[name].after(clock, wave, event_time, is_held=is_held)
        return after


def _with_columns_of(known: Mapping[str, bytes], files: Sequence[SinkFile]) -> tuple[dict[str, bytes], str]:
    """Return the columns of every sink after these files, and the first problem; empty if there is none.

    If two tasks have inferred incompatible types for a new column, the first type is used.
    """
    columns, problem = dict(known), ""
    for file in files:
        before = read_schema(columns.get(file.component, b""), file.component)
        try:
            after = grown(before, read_schema(file.schema, file.component))
        except Misfit as error:
            problem = problem or f"sink {file.component!r}, task {file.task_index}: {error}"
        else:
            evolved = has_evolved(before) or (len(before) > 0 and after != before)
            columns[file.component] = schema_of(((field.name, field.type) for field in after), evolved=evolved)
    return columns, problem
