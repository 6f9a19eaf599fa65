"""A task of a transactional topology's spout in the processing phase of a batch: emits its share, then PREPARE.

The tasks of the next stage begin when all tasks of this stage have ended. A task ends only after it has sent its
metadata to the driver, which stores it. So a batch's metadata is durable before a bolt sees its tuples. If the task
fails, bolts may see tuples of the batch, but no bolt finishes it.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any, Generic, TypeVar

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.checkpoint.ports import BatchTry, Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, as_failure
from anchorbolt.engine.task.watchdog import watched
from anchorbolt.errors import TopologyError
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.serialization import unpack
from anchorbolt.spouts import transactional as spouts
from anchorbolt.streams.calls import Buffer, others_may_call
from anchorbolt.transactional.batches.flights import BatchDriver, PartitionStart
from anchorbolt.transactional.batches.metadata import check_size, packed_metadata
from anchorbolt.transactional.batches.spout_calls import called, spout_error
from anchorbolt.util.messages import shortened

_WAITING = 4
"""The limit of flushed buffers that wait to be sent; at the limit, the emitter waits."""

_Put = Callable[[list[Envelope]], None]

T = TypeVar("T")

_POLL_S = 0.1


def run_emitter_task(
    plan: ExecutionPlan, task: TaskKey, current: Round, registry: InstanceRegistry, driver: BatchDriver
) -> Iterator[Envelope]:
    """Yield the blobs that a task of the spout sends. A failure is reported to the driver, never raised."""
    attempt = uuid.uuid4().hex
    emitter = Emitter(plan, task)
    emitter.begin(attempt)
    report = TaskReport(task, attempt, current.fence.seq)
    at_task(*task, current.txid)
    started = perf_counter()
    emission: _Emission | None = None
    try:
        reach(FaultPoint.TASK_BEGUN)
        emission = _Emission(plan, task, current, registry, driver, emitter, report)
        for envelopes in Produced(emission.run, _WAITING):
            yield from envelopes
        emitter.forward(CheckpointTuple(current.txid, Action.PREPARE))
        reach(FaultPoint.TASK_PREPARED)
        report.metrics = emission.metrics.take()
    except (Exception, SystemExit) as error:
        emitter.take()
        if emission is not None:
            emission.metrics.take()  # drop the failed attempt's metrics: the emitter is kept
        report.failure = as_failure(spout_error(task, "its emitter", error), current.txid, plan.masking)
        emitter.give_up()
    report.source_ms = max(0.0, (perf_counter() - started) * 1000 - emitter.encode_ms)
    emitter.report(report)
    yield from emitter.take()


class _Emission:
    """The emission of one task's share of a batch."""

    def __init__(
        self,
        plan: ExecutionPlan,
        task: TaskKey,
        current: Round,
        registry: InstanceRegistry,
        driver: BatchDriver,
        emitter: Emitter,
        report: TaskReport,
    ) -> None:
        assert current.batch is not None
        self._plan = plan
        self._task = task
        self._round = current
        self._batch: BatchTry = current.batch
        self._driver = driver
        self._report = report
        self._emitter = emitter
        self._collector = BatchOutputCollector(task[0], plan.wiring.streams[task[0]], self._flush)
        self._collector.most_bytes = plan.settings.most_buffer_bytes
        self._collector.attempt = current.batch.attempt
        self._collector.begin(emitter.check if current.checks else None)
        kept = registry.emitter(plan, task)
        self._source, self.metrics = kept.emitter, kept.context.metrics

    def run(self, put: _Put) -> None:
        """Emit the share of the task, and pass its blobs to `put` as they fill. Runs on its own thread."""
        self._put = put
        with watched(self._plan, self._task, "emitter"):
            self._collector.open(checks=others_may_call())
            try:
                self._emit()
            finally:
                self._collector.close()

    def _emit(self) -> None:
        source, batch = self._source, self._batch
        self._called("cleanup_before", batch.committed + 1)
        if isinstance(source, spouts.TransactionalEmitter):
            metadata = None if batch.metadata is None else unpack(batch.metadata)
            self._called("emit_batch", batch.attempt, metadata, self._collector)
            self._collector.flush()
        else:
            told = {
                start.partition: self._partition(start) for start in self._driver.partitions(self._round, self._task)
            }
            size = sum(len(each) for each in told.values() if each is not None)
            check_size(self._task[0], "the metadata of the task's partitions", size)
            self._driver.tell(self._round, self._task, told)
            self._report.metadata = {partition: each for partition, each in told.items() if each is not None}
        self._report.tuples_in = self._report.tuples_out = self._collector.emitted

    def _partition(self, start: PartitionStart) -> bytes | None:
        """Emit a partition's share; return its packed metadata, None if nothing was emitted."""
        attempt, collector, partition = self._batch.attempt, self._collector, start.partition
        if start.stored is not None:
            self._called("emit_partition_batch", attempt, collector, partition, unpack(start.stored))
            collector.flush()
            return start.stored
        if start.is_empty:
            return None
        before = collector.emitted
        last = None if start.last is None else unpack(start.last)
        metadata = self._called("emit_partition_batch_new", attempt, collector, partition, last)
        collector.flush()
        emitted = collector.emitted - before
        packed = packed_metadata(self._task[0], metadata, start.last, "emit_partition_batch_new")
        if metadata is not None and packed != start.last:
            return packed
        if emitted:
            shown = "no metadata" if metadata is None else f"the metadata of the batch before, {shortened(last)},"
            raise TopologyError(
                f"spout {self._task[0]!r}: emit_partition_batch_new emitted {emitted:,} tuples of partition "
                f"{partition}, but returned {shown} with them: they would be emitted again. Return metadata of this "
                "batch, such as the position behind its last tuple.",
                component=self._task[0],
            )
        return None

    def _called(self, hook: str, *arguments: Any) -> Any:
        return called(self._task, hook, getattr(self._source, hook), *arguments)

    def _flush(self, stream: str, buffer: Buffer) -> int:
        capacity = self._emitter.flush(stream, buffer)
        self._put(self._emitter.take())
        return capacity


class _Abandoned(BaseException):
    """Ends the producer's thread when its items are not read any more. Not an `Exception`: user code may catch that."""


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Produced(Generic[T]):
    """The items that `produce` passes to its argument, in order. At most `most` items wait at a time."""

    def __init__(self, produce: Callable[[Callable[[T], None]], None], most: int) -> None:
        self._produce = produce
        self._items: queue.Queue[T | _End] = queue.Queue(most)
        self._abandoned = threading.Event()

    def __iter__(self) -> Iterator[T]:
        """Yield the items. Raises the exception of `produce`, also a `SystemExit`."""
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="anchorbolt-emitter", daemon=True)
        thread.start()
        try:
            while True:
                item = self._items.get()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                yield item
        finally:
            self._abandoned.set()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._produce(self._put)
        except _Abandoned:
            return
        except BaseException as raised:
            error = raised
        with suppress(_Abandoned):
            self._put(_End(error))

    def _put(self, item: T | _End) -> None:
        while not self._abandoned.is_set():
            try:
                self._items.put(item, timeout=_POLL_S)
                return
            except queue.Full:
                continue
        raise _Abandoned
