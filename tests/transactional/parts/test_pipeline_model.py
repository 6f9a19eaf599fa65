"""The pipeline of batches with a processing that a state machine ends, fails and cuts off in any order.

The state machine is the driver: it commits batches in their order, gives up a batch with all behind it, and starts
another driver on the same store. The spout's emitters are called as their tasks call them.
"""

from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.ports import Round
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine.sources.batch_source import pipeline_of
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import WaveFailed
from anchorbolt.files import open_folder
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.transactional import BatchSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.transactional import (
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedTransactionalSpout,
)
from anchorbolt.transactional.batches.metadata import BatchMetadata
from tests.engine.jobs import Fields
from tests.transactional.jobs import values_topology

TASKS = 2


class World:
    """The source: how many partitions there are."""

    partitions = 1


class AllReady(PartitionedCoordinator):
    def number_of_partitions(self) -> int:
        return World.partitions


class Kept(Fields, PartitionedTransactionalSpout):
    fields = ("tx", "number")

    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return AllReady()

    def emitter(self, conf: Any, context: Any) -> Any:
        raise AssertionError("the machine emits")


class Opaque(Fields, OpaquePartitionedTransactionalSpout):
    fields = ("tx", "number")
    coordinator = Kept.coordinator
    emitter = Kept.emitter


class FakeProcessing:
    """A processing phase that the machine moves."""

    def __init__(self, current: Round, notify: Callable[[], None]) -> None:
        self.round, self.notify = current, notify
        self.is_ended = self.is_cancelled = False
        self.told: set[int] = set()  # tasks
        self.emitted: dict[int, bytes] = {}

    def reports(self) -> Sequence[TaskReport]:
        return [TaskReport(("spout", 0), "attempt", self.round.fence.seq, metadata=self.emitted)]

    def cancel(self) -> None:
        self.is_cancelled = True


class Spout:
    """What the pipeline asks the checkpoint spout."""

    def __init__(self, record: DecisionRecord) -> None:
        self.record = record

    def begin_batches(self, *, waits: bool) -> None:
        """Note nothing: the bolts are not tested here."""


class PipelineModel(RuleBasedStateMachine):
    kind: type[BatchSpout]

    @initialize(partitions=st.integers(1, 3), pending=st.integers(1, 4))
    def begin(self, partitions: int, pending: int) -> None:
        World.partitions = partitions
        self.directory = TemporaryDirectory()
        self.provider = MemoryStateProvider()
        self.committed: list[BatchMetadata] = []
        self.made: dict[int, dict[int, bytes]] = {}  # by txid: what an idempotent spout made of it
        self.attempts: set[tuple[int, int]] = set()
        self.most = 0
        self.start(pending)

    def start(self, pending: int) -> None:
        self.pending, self.most = pending, max(self.most, pending)
        self.phases: list[FakeProcessing] = []
        conf = {"topology.max.spout.pending": pending}
        topology = values_topology(self.kind(), parallelism=TASKS)
        plan = prepare_plan(topology, conf, memory=self.provider, location=self.directory.name)
        self.storage = plan.provider.open("record")
        self.log = DecisionLog(self.storage)
        self.log.claim()
        last = self.committed[-1] if self.committed else None
        record = DecisionRecord(
            state=CheckpointState(len(self.committed), Phase.COMMITTED), batch=last.encode() if last else b""
        )
        self.spout: Any = Spout(record)
        processing = Mock(session=None, start=self.processing)
        self.pipeline = pipeline_of(plan, self.log, open_folder(self.directory.name), processing)
        spout: Any = self.spout
        self.pipeline.open(spout)

    def processing(self, current: Round, notify: Callable[[], None]) -> FakeProcessing:
        assert current.batch is not None
        attempt = current.batch.attempt
        assert attempt.txid == current.txid
        assert (attempt.txid, current.fence.generation * 10_000 + attempt.attempt_id) not in self.attempts
        self.attempts.add((attempt.txid, current.fence.generation * 10_000 + attempt.attempt_id))
        assert current.batch.committed == len(self.committed)
        phase = FakeProcessing(current, notify)
        self.phases.append(phase)
        return phase

    def alive(self) -> list[FakeProcessing]:
        return [phase for phase in self.phases if not phase.is_cancelled]

    @rule()
    def fill(self) -> None:
        self.pipeline.fill()

    @precondition(lambda self: self.phases)
    @rule(data=st.data())
    def tell(self, data: st.DataObject) -> None:
        """A task of the spout emits, in any try, given up or not."""
        phase = data.draw(st.sampled_from(self.phases), label="phase")
        task = ("spout", data.draw(st.integers(0, TASKS - 1), label="task"))
        if phase.is_ended or task[1] in phase.told:
            return
        told: dict[int, bytes | None] = {}
        try:
            for start in self.pipeline.partitions(phase.round, task):
                if start.stored is not None:
                    told[start.partition] = start.stored
                elif start.is_empty or data.draw(st.booleans(), label="emits nothing"):
                    told[start.partition] = None
                else:
                    before = unpack(start.last) if start.last is not None else 0
                    assert before == self.position(phase.round.txid - 1, start.partition)
                    told[start.partition] = pack(before + data.draw(st.integers(1, 9), label="take"))
            self.pipeline.tell(phase.round, task, told)
        except WaveFailed:
            assert phase.is_cancelled
            return
        assert not phase.is_cancelled
        phase.told.add(task[1])
        phase.emitted.update({partition: each for partition, each in told.items() if each is not None})
        txid = phase.round.txid
        known = self.pipeline.known(txid)
        if known is not None:
            emitted = {partition: known.partitions[partition] for partition in known.emitted}
            if self.kind is Kept:
                assert self.made.setdefault(txid, emitted) == emitted
            else:
                self.made[txid] = emitted

    def position(self, txid: int, partition: int) -> int:
        """Return where a partition is behind a batch."""
        for each in range(txid, 0, -1):
            if each <= len(self.committed):
                packed = self.committed[each - 1].partitions.get(partition)
                return 0 if packed is None else int(unpack(packed))
            if partition in self.made[each]:
                return int(unpack(self.made[each][partition]))
        return 0

    @precondition(lambda self: any(len(phase.told) == TASKS for phase in self.alive()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        phase = data.draw(st.sampled_from([each for each in self.alive() if len(each.told) == TASKS]), label="phase")
        phase.is_ended = True
        phase.notify()

    @rule()
    def commit(self) -> None:
        """Commit the next batch, if its processing phase has ended."""
        txid = len(self.committed) + 1
        ended = [phase for phase in self.alive() if phase.round.txid == txid and phase.is_ended]
        if not ended:
            return
        flight, _ = self.pipeline.take(txid)
        assert self.pipeline.known(txid) == flight.metadata
        self.committed.append(flight.metadata)
        state = CheckpointState(txid, Phase.COMMITTED)
        self.spout.record = DecisionRecord(state=state, batch=flight.metadata.encode())
        self.pipeline.committed(txid)
        self.phases.remove(ended[0])

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """Roll back the next batch."""
        txid = len(self.committed) + 1
        known = self.pipeline.known(txid)
        self.pipeline.give_up(txid)
        assert self.alive() == []
        assert self.pipeline.is_empty
        assert self.pipeline.known(txid) == known

    @rule(more=st.integers(0, 1))
    def grow(self, more: int) -> None:
        World.partitions = min(World.partitions + more, 5)

    @rule(pending=st.integers(1, 4))
    def restart(self, pending: int) -> None:
        """The driver dies; another one starts, with another number of batches that may be pending."""
        if self.kind is Kept:  # a batch that was not known is made anew
            stored = {BatchMetadata.decode(data).txid for data in self.log.load_batches().values()}
            self.made = {txid: each for txid, each in self.made.items() if txid in stored}
        self.storage.close()
        self.start(pending)

    @invariant()
    def in_flight_in_order(self) -> None:
        txids = [phase.round.txid for phase in self.alive()]
        assert txids == [*range(len(self.committed) + 1, len(self.committed) + 1 + len(txids))]
        assert len(txids) <= self.pending
        assert all(self.pipeline.known(txid) is not None for txid in txids[:-1])

    @invariant()
    def committed_without_a_gap(self) -> None:
        assert [metadata.txid for metadata in self.committed] == [*range(1, len(self.committed) + 1)]
        for metadata in self.committed:
            emitted = {partition: metadata.partitions[partition] for partition in metadata.emitted}
            assert self.made.get(metadata.txid, emitted) == emitted

    @invariant()
    def stored_is_bounded(self) -> None:
        assert len(self.log.load_batches()) <= self.most

    def teardown(self) -> None:
        if hasattr(self, "pipeline"):
            self.storage.close()
            self.directory.cleanup()


class KeptPipeline(PipelineModel):
    kind = Kept


class OpaquePipeline(PipelineModel):
    kind = Opaque


TestKeptPipeline = KeptPipeline.TestCase
TestKeptPipeline.settings = settings(max_examples=40, stateful_step_count=40)
TestOpaquePipeline = OpaquePipeline.TestCase
TestOpaquePipeline.settings = settings(max_examples=40, stateful_step_count=40)
