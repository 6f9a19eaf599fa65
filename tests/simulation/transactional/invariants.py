"""The invariants of transactional topologies, beside those of the protocol."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import STATE_KEY
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import Round
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import BoltError, Fenced, SerializationError, StaleAttempt, StateUnavailable, WaveFailed
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.transactional import OpaqueValue, TransactionalValue
from anchorbolt.transactional.batches.metadata import NO_BATCH, BatchMetadata
from tests.simulation.invariants import CHECKPOINT_NAMESPACE, Invariants
from tests.simulation.topology import NAME, Expected
from tests.simulation.transactional.bolts import BATCH, GROUPS, SIZE
from tests.simulation.transactional.scenario import BatchScenario, Shape, SpoutKind
from tests.simulation.transactional.source import Source, content, positions
from tests.simulation.transactional.topology import COUNTERS
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from anchorbolt.state_backends.memory import _Namespace
    from tests.simulation.transactional.world import BatchWorld

_CODEC = MsgpackCodec()
_ENCODING = EntryEncoding("simulated", _CODEC, _CODEC)
[_STATE_KEY] = _ENCODING.key_bytes([STATE_KEY])


class BatchInvariants(Invariants):
    """What must hold of the batches.

    What is committed is known from the decision records, what a batch holds from its durable metadata. Bolts tell what
    they see, as soon as they do.
    """

    def __init__(self, world: BatchWorld, source: Source, scenario: BatchScenario) -> None:
        super().__init__(world, Expected([]), None)
        self._batch_world = world
        self._source = source
        self._scenario = scenario
        self._record_data: bytes | None = None
        self._at = (0, True)  # the last recorded txid, and whether it is COMMITTED
        self._slots: dict[bytes, bytes] = {}
        self._durable: dict[int, list[BatchMetadata]] = {}  # by txid, in the order in which it was written
        self._seen: dict[int, BatchMetadata] = {}  # by txid: the batch, once a bolt has seen a tuple of it
        self._committed_batches = {0: NO_BATCH}
        self._left_out: set[int] = set()  # the committed batches of which nothing is committed
        self._emitters: defaultdict[int, set[int]] = defaultdict(set)  # that have committed, by txid
        self.is_damaged = False  # a hand-off is not what its task wrote; tuples are compared only behind the last one
        self._spoiled: set[TransactionAttempt] = set()

    @property
    def is_exhausted(self) -> bool:
        """Whether all rows of the source are committed."""
        txid, is_committed = self._at
        ends = positions(self._committed_batches[txid])
        lengths = enumerate(self._source.lengths)
        return is_committed and all(ends.get(partition, 0) == length for partition, length in lengths)

    def spoil(self, current: Round) -> None:
        """Note that the bolts of a try may see anything, and that it will fail.

        An emitter has failed when it had emitted; or Spark uses the output of another try's emitters, or loses
        a part of a task's output: the driver finds out at the end.
        """
        assert current.batch is not None
        self._spoiled.add(current.batch.attempt)

    def sees(self, attempt: TransactionAttempt, row: int) -> None:
        """Check a row that the first bolt executes."""
        txid = attempt.txid
        if attempt in self._spoiled:
            return
        durable = self._durable.get(txid)
        if not durable:
            self.broken(f"a bolt sees row {row} of batch {txid}, and no metadata of it is durable")
            return
        possible = durable if self._scenario.kind.is_opaque else [self._seen.setdefault(txid, durable[-1])]
        if not any(row in content(each) for each in possible):
            self.broken(f"a bolt sees row {row} in {tuple(attempt)}, which is not in {possible}")

    def finishing(self, attempt: TransactionAttempt, who: str) -> None:
        """Check that the commit phase of a batch may run."""
        if self._at < (attempt.txid - 1, True):
            self.broken(f"{who} finishes batch {attempt.txid}, and the record is at {self._at}")

    def complete(self, attempt: TransactionAttempt, rows: list[int], who: str) -> None:
        """Check the rows of a batch that a late bolt has at its end."""
        if attempt in self._spoiled:
            return
        possible = [content(each) for each in self._durable.get(attempt.txid, ())]
        if len(set(rows)) < len(rows) or (frozenset(rows) not in possible):
            self.broken(f"{who} finishes {tuple(attempt)} with the rows {sorted(rows)}, not {possible}")

    def agree(self, attempt: TransactionAttempt, rows: list[int], marks: set[int], told: dict[str, list[int]]) -> None:
        """Check that all bolts above a bolt had the same rows, from the same attempt of the first one."""
        if attempt in self._spoiled:
            return
        if len(marks) > 1 or any(sorted(each) != sorted(rows) for each in told.values()) or (rows and len(told) < 3):
            self.broken(f"{tuple(attempt)} has {sorted(rows)} with the marks {marks}; the bolts above told {told}")

    def commits(self, current: Round) -> None:
        """Check the hand-offs with which a commit phase begins."""
        assert current.batch is not None
        if current.batch.fence.generation != current.fence.generation:
            self.broken(f"round {tuple(current.fence)} uses the hand-offs of {current.batch.fence}")

    def failed(self, reports: Sequence[TaskReport]) -> None:
        """Check that no task has failed but by a fault of the simulation."""
        for report in reports:
            failure = report.failure
            if failure is None or "simulated" in failure.message or isinstance(failure, StateUnavailable | Fenced):
                continue
            if self.is_damaged and isinstance(failure, SerializationError | BoltError):
                continue
            if not isinstance(failure, WaveFailed | StaleAttempt) or "fault of Anchorbolt" in failure.message:
                self.broken(f"task {report.task} has failed: {failure!r}")

    def emitter_commits(self, attempt: TransactionAttempt, index: int) -> None:
        """Note that an emitter takes part in a commit phase."""
        self.finishing(attempt, f"emitter {index}")
        self._emitters[attempt.txid].add(index)

    def forgets(self, txid: int) -> None:
        """Check that an emitter may forget the batches below `txid`."""
        if txid - 1 > self._at[0]:
            self.broken(f"an emitter forgets the batches below {txid}, and the record is at {self._at}")

    def has_letters(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Check the dead letters of a batch that is left out."""
        if [letter.values[0] for letter in letters] != [txid] or self._at < (txid, False):
            self.broken(f"the letters {letters} are written for batch {txid}, and the record is at {self._at}")

    def at_the_end(self) -> None:
        if not self.is_exhausted:
            raise Violation(f"the run has ended at {self._at}, and the source has more")
        record = self.record()
        assert record is not None
        self._check_committed(record)
        self.nothing_staged()

    def _recorded(self) -> None:
        entries = self._store(CHECKPOINT_NAMESPACE).entries
        self._check_slots({key: data for key, data in entries.items() if key != _STATE_KEY})
        if entries.get(_STATE_KEY) is not self._record_data:
            self._record_data = entries.get(_STATE_KEY)
            super()._recorded()
            record = self.record()
            assert record is not None
            self._at = record.txid, record.state.phase is Phase.COMMITTED

    def _check_slots(self, slots: dict[bytes, bytes]) -> None:
        """Note the metadata that has become durable. A batch that a bolt has seen must keep its own."""
        if len(slots) > self._batch_world.most_pending:
            raise Violation(f"{len(slots)} batches have metadata; at most {self._batch_world.most_pending} are pending")
        for slot, data in slots.items():
            if self._slots.get(slot) is data:
                continue
            metadata = BatchMetadata.decode(data)
            txid = metadata.txid
            if txid <= self._at[0]:
                raise Violation(f"metadata of batch {txid} is written, and the record is at {self._at}")
            known = {BatchMetadata.decode(each).txid for each in slots.values()} | {self._at[0]}
            if txid - 1 not in known:
                raise Violation(f"the metadata of batch {txid} is durable, and that of the batch before is not")
            seen = self._seen.get(txid, metadata)
            if seen != metadata:
                raise Violation(f"batch {txid} gets the metadata {metadata}, and bolts have seen {seen}")
            self._durable.setdefault(txid, []).append(metadata)
            before = self._slots.get(slot)
            if before is not None and self._at[0] < BatchMetadata.decode(before).txid != txid:
                raise Violation(f"the metadata of batch {txid} is written over {BatchMetadata.decode(before)}")
        self._slots = slots

    def _check_batch(self, record: DecisionRecord) -> None:
        """The batches are 1, 2, 3 …; each begins where the one before has ended."""
        txid, (last, is_committed) = record.txid, self._at
        if txid == 0 and last == 0:
            return
        if txid != last and (txid, is_committed) != (last + 1, True):
            raise Violation(f"transaction {txid} is recorded after {self._at}")
        batch = BatchMetadata.decode(record.batch) if record.batch else NO_BATCH
        if (batch.txid, record.batch_id) != (txid, txid):
            raise Violation(f"transaction {txid} is recorded with the batch {batch}")
        if self._committed_batches.setdefault(txid, batch) != batch:
            raise Violation(f"transaction {txid} is recorded with {batch} and {self._committed_batches[txid]}")
        if self._seen.get(txid, batch) != batch or batch not in self._durable.get(txid, ()):
            raise Violation(f"transaction {txid} is recorded with {batch}, and not as it was stored and seen")
        before = self._committed_batches[txid - 1]
        begins = positions(before)
        for partition, end in positions(batch).items():
            rows = sum(row // 1000 == partition for row in content(batch))
            if begins.get(partition, 0) + rows != end:
                raise Violation(f"batch {txid} ({batch}) does not begin where {before} has ended")

    def _check_entries(self, namespace: str, store: _Namespace) -> dict[str, tuple[int, int]]:
        return {}

    def _check_committed(self, record: DecisionRecord) -> None:
        """COMMITTED: each committed batch is in the state once, and in the outside store."""
        for name, at in record.namespaces.items():
            store = self._store(name)
            if (store.metadata.committed, store.metadata.winner) != (at.txid, at.attempt):
                raise Violation(f"txid {record.txid} is COMMITTED, and {name} is at {store.metadata.committed}")
        if record.dead_letters:
            self._left_out.add(record.txid)
        batches = {
            txid: frozenset[int]() if txid in self._left_out else content(self._committed_batches[txid])
            for txid in range(1, record.txid + 1)
        }
        has_emitters = self._scenario.kind is SpoutKind.COMMITTER and record.txid not in {0, *self._left_out}
        wanted = set(range(self._scenario.emitters))
        if has_emitters and self._emitters[record.txid] != wanted:
            raise Violation(f"batch {record.txid} is committed, by the emitters {self._emitters[record.txid]} alone")
        if self._scenario.shape in (Shape.FULL, Shape.STATEFUL):
            self._check_state(batches)
        if self._scenario.has_outside and not self._left_out:  # an earlier try may have written outside
            self._check_outside(batches)

    def _check_state(self, batches: dict[int, frozenset[int]]) -> None:
        counted: dict[int, list[int]] = {}
        for task in range(COUNTERS):
            entries = self._entries(f"{NAME}:count-{task}")
            told = entries.pop(BATCH, None)
            [size] = entries.pop(SIZE, [0])
            if size != len(entries):
                raise Violation(f"count-{task} has {len(entries)} rows, and its field says {size}")
            counted.update(entries)
            self._check_told(batches, told)
        expected = {row: txid for txid, rows in batches.items() for row in rows}
        if {row: [count, txid] for row, (count, txid, _) in counted.items()} != {
            row: [1, txid] for row, txid in expected.items()
        }:
            raise Violation(f"after batch {len(batches)} the state is {counted}, not {expected}")
        marks: dict[int, set[int]] = {}
        for _, txid, mark in counted.values():
            marks.setdefault(txid, set()).add(mark)
        if any(len(each) > 1 for each in marks.values()):
            raise Violation(f"a batch has marks of two attempts in the state: {marks}")

    def _check_told(self, batches: dict[int, frozenset[int]], told: Any) -> None:
        """What the bolts above a stateful committer told it is of the last batch that is not empty."""
        last = next((rows for _, rows in sorted(batches.items(), reverse=True) if rows), None)
        is_full = self._scenario.shape is Shape.FULL
        wanted = sorted(last) if last and is_full else None
        found = None if told is None else told["below"][0]
        if found != wanted:
            raise Violation(f"after batch {len(batches)} the bolts above told {found}, not {wanted}")

    def _check_outside(self, batches: dict[int, frozenset[int]]) -> None:
        kind = OpaqueValue if self._scenario.takes_opaque_map else TransactionalValue
        values = self._batch_world.outside_store.values
        expected = Counter(row % GROUPS for rows in batches.values() for row in rows)
        for group in range(GROUPS):
            stored = values.get(group)
            value = 0 if stored is None else kind.decode(stored).value or 0
            if value != expected[group]:
                raise Violation(f"after batch {len(batches)} group {group} is {value} outside, not {expected[group]}")

    def _entries(self, namespace: str) -> dict[Any, Any]:
        entries = self._store(namespace).entries
        return {_CODEC.decode(key): _CODEC.decode(value) for key, value in entries.items()}

    def broken(self, what: str) -> None:
        """End the simulation."""
        self._world.break_off(Violation(what))
