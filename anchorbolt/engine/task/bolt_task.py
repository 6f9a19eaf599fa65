"""One task of a stage in one wave, whatever carries its rows: rows in, rows out, and a report behind them.

A bolt task executes blob by blob and yields rows as they fill, so that its memory does not depend on the size of the
batch. Rows for other levels pass through unopened.
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

from anchorbolt.checkpoint.executor import StatefulBoltExecutor
from anchorbolt.checkpoint.sink_executor import SinkExecutor
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.instances import Instance, InstanceRegistry
from anchorbolt.engine.task.messages import BarrierMessage, BatchMessage, Row, decode_message
from anchorbolt.engine.task.round import TaskKey, TaskReport, Wave
from anchorbolt.errors import AnchorboltError, WaveFailed
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.streams.tuple import StreamHeader, TupleBatch

_CHUNK_TUPLES = 2048

SourceBatch = tuple[int, Sequence[Sequence[Any]]]
"""Rows of a source: how many, and one list of values per column."""


def run_spout_task(
    plan: ExecutionPlan, component: str, index: int, wave: Wave, batches: Iterable[SourceBatch]
) -> Iterator[Row]:
    """Run a stream spout's task: emit its partition of the source's batch.

    Args:
        plan: The topology's plan.
        component: Id of the spout.
        index: Index of the source's partition.
        wave: The wave.
        batches: The partition's rows, column by column.
    """
    attempt = uuid.uuid4().hex
    emitter = Emitter(plan, 0, plan.context(component, index))
    emitter.begin(attempt)
    at_task(component, index, wave.txid)
    report = TaskReport(component, index, attempt, wave.fence.seq)
    stream, fields = plan.spout_stream(component)
    waiting = iter(batches)
    try:
        reach(FaultPoint.TASK_BEGUN)
        capacity = plan.settings.first_buffer_tuples
        while True:
            started = perf_counter()
            batch = next(waiting, None)
            report.source_ms += (perf_counter() - started) * 1000
            if batch is None:
                break
            size, columns = batch
            if len(columns) != len(fields):
                raise WaveFailed(
                    f"spout {component!r} declares the fields {', '.join(fields)}, but its source has "
                    f"{len(columns)} columns. Name one field per column.",
                    txid=wave.txid,
                )
            report.tuples_in += size
            report.tuples_out += size
            rows = list(zip(*columns, strict=True))
            start = 0
            while start < size:
                chunk = rows[start : start + capacity]
                capacity = emitter.flush(stream, chunk)
                start += len(chunk)
                yield from emitter.take()
        emitter.forward(CheckpointTuple(wave.txid, Action.PREPARE))
        reach(FaultPoint.TASK_PREPARED)
    except Exception as error:
        report.failure = as_failure(error, wave.txid)
    report.bytes_out = emitter.bytes_out
    emitter.report(report)
    yield from emitter.take()


def run_bolt_task(
    plan: ExecutionPlan,
    task: TaskKey,
    wave: Wave,
    registry: InstanceRegistry,
    rows: Iterable[Row],
) -> Iterator[Row]:
    """Run a bolt's task: execute what is for it, pass on what is for others, prepare, report.

    What goes wrong is reported to the driver, never raised: the rows still have to be read to their end.

    Args:
        plan: The topology's plan.
        task: The task.
        wave: The wave.
        registry: The instances of this process.
        rows: What the stage's shuffle brought for this partition.
    """
    level, partition = plan.place(*task)
    run = _BoltTask(plan, task, wave, registry)
    for row in rows:
        if row.level != level:
            yield Row(
                plan.next_partition(level, row.level, row.destination),
                row.level,
                row.destination,
                row.payload,
            )
            continue
        assert row.destination == partition, "a blob reached another partition than its own"
        for _ in run.receive(row.payload):
            yield from run.take()
    run.finish()
    yield from run.take()


class _BoltTask:
    """The state of one bolt task during one round."""

    def __init__(self, plan: ExecutionPlan, task: TaskKey, wave: Wave, registry: InstanceRegistry) -> None:
        self._plan = plan
        self._task = task
        self._wave = wave
        self._registry = registry
        self._attempt = uuid.uuid4().hex
        self._report = TaskReport(*task, self._attempt, wave.fence.seq)
        self._received: dict[TaskKey, int] = {}
        self._held: dict[TaskKey, dict[int, BatchMessage]] = {}
        self._barriers: dict[TaskKey, BarrierMessage] = {}
        self._headers: dict[tuple[TaskKey, str], StreamHeader] = {}
        self._instance: Instance | None = None
        self._emitter: Emitter | None = None
        at_task(*task, wave.txid)
        try:
            reach(FaultPoint.TASK_BEGUN)
            self._instance = registry.obtain(plan, task, wave)
            self._emitter = self._instance.emitter
            self._instance.begin(plan, task, wave, self._attempt)
        except Exception as error:
            self._fail(error)

    def take(self) -> list[Row]:
        """Return the rows that wait to be sent."""
        return [] if self._emitter is None else self._emitter.take()

    def receive(self, payload: bytes) -> Iterator[None]:
        """Take a blob; stops after every chunk of tuples, so that the caller can send what was emitted."""
        if self._report.failure is not None:
            return
        try:
            message = decode_message(payload)
            if isinstance(message, BarrierMessage):
                self._saw(message.source, message.attempt)
                self._barriers[message.source] = message
            elif isinstance(message, BatchMessage):
                self._saw(message.source, message.attempt)
                for ready in self._in_order(message):
                    for _ in self._execute(ready):
                        reach(FaultPoint.TASK_EXECUTED)
                        yield
        except Exception as error:
            self._fail(error)

    def finish(self) -> None:
        """The input has ended: prepare if every upstream task's barrier came, and report in any case."""
        report = self._report
        try:
            if report.failure is None:
                self._check_aligned()
                reach(FaultPoint.TASK_ALIGNED)
                assert self._instance is not None
                started = perf_counter()
                self._instance.executor.handle(CheckpointTuple(self._wave.txid, Action.PREPARE))
                report.prepare_ms = (perf_counter() - started) * 1000
                reach(FaultPoint.TASK_PREPARED)
                self._instance.attempt = self._attempt
        except Exception as error:
            self._fail(error)
        self._complete_report()
        emitter = self._emitter
        if emitter is None:
            level, _ = self._plan.place(*self._task)
            emitter = self._emitter = Emitter(self._plan, level, self._plan.context(*self._task))
        emitter.report(report)

    def _saw(self, source: TaskKey, attempt: str) -> None:
        if self._report.seen.setdefault(source, attempt) != attempt:
            raise WaveFailed(
                f"task {self._task} saw two attempts of task {source}: Spark ran it twice. The wave is "
                "tried again.",
                txid=self._wave.txid,
            )

    def _in_order(self, message: BatchMessage) -> Iterator[BatchMessage]:
        """Give a source task's batches in the order in which it sent them; hold back what overtook another."""
        source = message.source
        expected = self._received.get(source, 0)
        if message.number < expected:
            raise WaveFailed(
                f"task {self._task} received batch {message.number} of task {source} twice",
                txid=self._wave.txid,
            )
        held = self._held.setdefault(source, {})
        held[message.number] = message
        while (ready := held.pop(expected, None)) is not None:
            expected += 1
            self._received[source] = expected
            yield ready

    def _execute(self, message: BatchMessage) -> Iterator[None]:
        assert self._instance is not None
        executor = self._instance.executor
        header = self._header(message)
        whole = TupleBatch(header, message.size, message.columns)
        executor.prefetch(whole)
        self._report.tuples_in += message.size
        if message.size <= _CHUNK_TUPLES:
            executor.execute(whole)
            yield
            return
        for start in range(0, message.size, _CHUNK_TUPLES):
            columns = [column[start : start + _CHUNK_TUPLES] for column in message.columns]
            size = min(_CHUNK_TUPLES, message.size - start)
            executor.execute(TupleBatch(header, size, columns))
            yield

    def _header(self, message: BatchMessage) -> StreamHeader:
        key = (message.source, message.stream)
        if key not in self._headers:
            component = message.source[0]
            self._headers[key] = StreamHeader(
                component, message.task_id, message.stream, self._plan.fields(component, message.stream)
            )
        return self._headers[key]

    def _check_aligned(self) -> None:
        """One barrier from each upstream bolt task, and from each spout task seen, behind all of its batches."""
        missing = [task for task in self._plan.upstream_tasks(self._task[0]) if task not in self._barriers]
        missing += [task for task in self._report.seen if task not in self._barriers]
        short = [
            source
            for source, barrier in self._barriers.items()
            if barrier.batches != self._received.get(source, 0) or barrier.txid != self._wave.txid
        ]
        if missing or short:
            raise WaveFailed(
                f"task {self._task} did not receive all of txid {self._wave.txid}: no barrier from "
                f"{missing}, batches missing from {short}",
                txid=self._wave.txid,
            )

    def _complete_report(self) -> None:
        report, instance = self._report, self._instance
        if instance is None:
            return
        report.bytes_out = instance.emitter.bytes_out
        report.tuples_out = instance.collector.emitted
        report.errors_reported = instance.collector.errors_reported
        executor = instance.executor
        if isinstance(executor, StatefulBoltExecutor):
            counters = executor.state.counters
            report.keys_read, report.keys_staged = counters.keys_read, counters.keys_staged
            report.seal = executor.state.seal if report.failure is None else None
            report.base = executor.state.committed
        elif isinstance(executor, SinkExecutor):
            report.sink = executor.file if report.failure is None else None

    def _fail(self, error: Exception) -> None:
        self._report.failure = as_failure(error, self._wave.txid)
        # Whatever it holds belongs to a wave that will be rolled back; pre_rollback still finds the instance.
        if self._emitter is not None:
            self._emitter.take()
        with suppress(Exception):
            if self._instance is not None:
                self._instance.attempt = ""


def as_failure(error: Exception, txid: int) -> AnchorboltError:
    """Return an exception as an error of our tree; another one than ours is Anchorbolt's own fault."""
    if isinstance(error, AnchorboltError):
        return error
    text = "".join(traceback.format_exception(error))
    return WaveFailed(
        f"{text}\nin a task of txid {txid}. This is a fault of Anchorbolt; please report it.", txid=txid
    )
