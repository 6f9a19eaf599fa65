"""A bolt's task in one round: executes the tuples that it receives, prepares, and sends a report.

The task executes blob by blob and sends blobs as they fill, so its memory does not depend on the size of the batch. It
passes on envelopes for other tasks without decoding them. Tasks of one partition take turns, blob by blob.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.executors.wrapped_bolts import WrappedBolt
from anchorbolt.engine.task.instance import Instance
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import (
    ContributionMessage,
    Envelope,
    GaveUpMessage,
    ReportMessage,
    TaskReport,
    TuplesMessage,
    as_failure,
    decode_message,
    encode_message,
    reported_error,
    tally,
)
from anchorbolt.engine.task.watchdog import watched
from anchorbolt.errors import InfrastructureLost, SerializationError, WaveFailed
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.streams.tuple import SYSTEM_ID, TICK_STREAM, StreamHeader, receiver_key
from anchorbolt.streams.tuple_batch import TupleBatch

if TYPE_CHECKING:
    from anchorbolt.streams.lineage import Lineage

_Sent = TuplesMessage | ContributionMessage

_TUPLES_PER_SEND = 2048
"""The task sends the emitted tuples at the latest after executing this many tuples; sooner if they are large."""


def run_bolt_tasks(
    plan: ExecutionPlan,
    tasks: Sequence[TaskKey],
    current: Round,
    registry: InstanceRegistry,
    envelopes: Iterable[Envelope],
    attempts: Sequence[str] = (),
) -> Generator[Envelope, None, dict[TaskKey, int]]:
    """Yield the envelopes that the tasks of a partition send or pass on; return how many tuples each has executed.

    `attempts` are unique names for this execution of each task; without them, the tasks make some. A failure is
    reported to the driver, never raised: the tasks must still read all envelopes.
    """
    with watched(plan, tasks[0]) as runs:

        def begin(task: TaskKey) -> None:
            runs(task)
            at_task(*task, current.txid)

        running = []
        for task, attempt in zip(tasks, attempts or [uuid.uuid4().hex for _ in tasks], strict=True):
            begin(task)
            running.append(BoltTask(plan, task, current, registry, attempt))
            envelopes = _run(running[-1], plan, task, envelopes, begin)
        yield from envelopes
    return {run.report.task: run.report.tuples_in for run in running}


def _run(
    run: BoltTask, plan: ExecutionPlan, task: TaskKey, envelopes: Iterable[Envelope], begin: Callable[[TaskKey], None]
) -> Iterator[Envelope]:
    """Yield what a task sends and passes on of these envelopes; call `begin` before each step of the task."""
    place, home = plan.wiring.places[task], plan.wiring.homes[task]

    def steps(sent: Iterable[Envelope]) -> Iterator[Envelope]:
        remaining = iter(sent)
        while True:
            begin(task)
            envelope = next(remaining, None)
            if envelope is None:
                return
            yield envelope

    yield from steps(run.execute_kept())
    for envelope in envelopes:
        if (envelope.level, envelope.destination) == place:
            yield from steps(run.receive(envelope.payload))
        else:
            following = plan.wiring.next_partition(home, envelope.level, envelope.destination)
            yield envelope._replace(partition=following)
    yield from steps(run.finish())


class BoltTask:
    """The state of one bolt task during one round."""

    def __init__(
        self, plan: ExecutionPlan, task: TaskKey, current: Round, registry: InstanceRegistry, attempt: str
    ) -> None:
        self._plan = plan
        self._task = task
        self._round = current
        self._attempt = attempt
        self._began = perf_counter()
        self.report = TaskReport(task, self._attempt, current.fence.seq)
        self._is_to_blame = True  # for its failure: no upstream task has failed
        self._received: dict[TaskKey, int] = {}
        self._early: dict[TaskKey, dict[int, _Sent]] = {}
        self._attempts: dict[TaskKey, str] = {}  # of the upstream tasks that sent here
        self._headers: dict[tuple[TaskKey, str], StreamHeader] = {}
        self._instance: Instance | None = None
        at_task(*task, current.txid)
        try:
            reach(FaultPoint.TASK_BEGUN)
            self._instance = registry.obtain(plan, task, current)
            self._instance.begin(plan, task, current, self._attempt)
        except Exception as error:
            self._fail(error)

    def receive(self, payload: bytes) -> Iterator[Envelope]:
        """Take a blob; yield the blobs that its tuples emit."""
        instance = self._instance
        if self.report.failure is not None or instance is None:
            return
        try:
            started = perf_counter()
            message = decode_message(payload)
            self.report.decode_ms += (perf_counter() - started) * 1000
            assert not isinstance(message, ReportMessage), "reports pass through"
            if isinstance(message, GaveUpMessage):
                self._is_to_blame = False
                raise WaveFailed(
                    f"task {self._task} did not get all of txid {self._round.txid}: task {message.source} failed",
                    txid=self._round.txid,
                )
            self._check_attempt(message.source, message.attempt)
            for ready in self._in_order(message):
                if isinstance(ready, ContributionMessage):
                    instance.bolt.contribute(ready.contribution, ready.moves)
                elif instance.bolt.keeps_blobs:
                    instance.bolt.keep(payload if ready is message else encode_message(ready))
                else:
                    yield from self._execute_and_send(ready, instance)
        except Exception as error:
            self._fail(error)

    def execute_kept(self) -> Iterator[Envelope]:
        """Execute the tuples that the task kept for this commit phase; yield the blobs that it sends meanwhile."""
        batch, instance = self._round.batch, self._instance
        hand_off = None if batch is None or batch.hand_offs is None else batch.hand_offs.get(self._task)
        if batch is None or hand_off is None or hand_off.holds_instance or instance is None:
            return
        if self.report.failure is not None:
            return
        try:
            for payload in self._plan.hand_offs().read_blobs(batch, self._task, hand_off):
                try:
                    message = decode_message(payload)
                except SerializationError as error:
                    raise WaveFailed(
                        f"what task {self._task} kept for the commit phase is damaged: {error.message}",
                        txid=self._round.txid,
                    ) from error
                assert isinstance(message, TuplesMessage), "only tuples are kept"
                yield from self._execute_and_send(message, instance)
        except Exception as error:
            self._fail(error)

    def _execute_and_send(self, message: TuplesMessage, instance: Instance) -> Iterator[Envelope]:
        for _ in self._execute(message, instance):
            reach(FaultPoint.TASK_EXECUTED)
            yield from instance.emitter.take()

    def finish(self) -> Iterator[Envelope]:
        """Prepare, after the input has ended with PREPARE; yield the last blobs, and the report in any case.

        The driver notices if a part of the input is missing: it compares the blobs that all tasks sent and received.
        """
        report, instance = self.report, self._instance
        try:
            if report.failure is None:
                reach(FaultPoint.TASK_ALIGNED)
                assert instance is not None
                self._tick(instance.bolt)
                for _ in instance.bolt.fire():
                    yield from instance.emitter.take()
                started = perf_counter()
                report.aligned_ms = (started - self._began) * 1000
                instance.bolt.handle(CheckpointTuple(self._round.txid, Action.PREPARE))
                report.prepare_ms = (perf_counter() - started) * 1000
                reach(FaultPoint.TASK_PREPARED)
                instance.attempt = self._attempt
                report.outcome = outcome = instance.bolt.outcome
                report.stage_ms = outcome.counters.total_ms("stage")
                report.seal_ms = outcome.counters.total_ms("seal")
                report.metrics = instance.emitter.context.metrics.take()
                if instance.watch is not None and report.tuples_in:
                    report.changed_attributes = instance.watch.end()
        except Exception as error:
            self._fail(error)
        if instance is not None:
            report.tuples_out = instance.collector.emitted
            report.errors_reported = instance.collector.errors_reported
            if instance.collector.last_reported is not None:
                report.error = reported_error(self._plan, *instance.collector.last_reported)
            report.failures_reported = report.tuples_failed = instance.collector.failures_reported
            if instance.tracker is not None and self._plan.is_tracked:
                report.tuples_acked, report.tuples_failed = instance.tracker.acked, instance.tracker.failed
            if instance.tracker is not None:
                report.failed_trees = list(instance.tracker.failures.values())
        report.received = tally(
            (source, self._attempts[source], self._task, blobs) for source, blobs in self._received.items()
        )
        emitter = Emitter(self._plan, self._task) if instance is None else instance.emitter
        if report.failure is not None and self._is_to_blame:
            emitter.give_up()
        emitter.report(report)
        yield from emitter.take()

    def _tick(self, bolt: WrappedBolt) -> None:
        """Execute a tick tuple, if one is due, after all other tuples of the wave."""
        component = self._task[0]
        if component in self._round.ticks:
            header = StreamHeader(SYSTEM_ID, -1, TICK_STREAM, ("rate_secs",), receiver_key(*self._task))
            bolt.tick(TupleBatch(header, 1, [[self._plan.ticks[component]]]))

    def _check_attempt(self, source: TaskKey, attempt: str) -> None:
        if self._attempts.setdefault(source, attempt) != attempt:
            raise InfrastructureLost(
                f"task {self._task} saw two attempts of task {source}: Spark ran it twice. The wave is tried again.",
                txid=self._round.txid,
            )

    def _in_order(self, message: _Sent) -> Iterator[_Sent]:
        """Yield the messages of a source in the order in which it sent them; keep a message that came early."""
        source = message.source
        expected = self._received.get(source, 0)
        if message.number < expected:
            raise WaveFailed(
                f"task {self._task} received blob {message.number} of task {source} twice", txid=self._round.txid
            )
        early = self._early.setdefault(source, {})
        early[message.number] = message
        while (ready := early.pop(expected, None)) is not None:
            expected += 1
            self._received[source] = expected
            yield ready

    def _execute(self, message: TuplesMessage, instance: Instance) -> Iterator[None]:
        bolt, header = instance.bolt, self._header(message)
        lineage = None if message.lineage is None else _lineage(message)
        columns = message.columns
        if self._round.batch is not None and (bolt.takes_txid or not bolt.takes_blocks):
            attempt = self._round.batch.attempt
            columns = [[attempt.txid if bolt.takes_txid else attempt] * message.size, *columns]
        whole = TupleBatch(header, message.size, columns, lineage)
        report, source = self.report, (message.source[0], message.stream)
        report.tuples_in += message.size
        report.tuples_from[source] = report.tuples_from.get(source, 0) + message.size
        started = perf_counter()
        bolt.prefetch(whole)
        parts: Iterable[TupleBatch] = [whole]
        if not bolt.takes_blocks:
            fetched = perf_counter()
            parts = self._portions(whole.in_lists(), instance)
            made_s = perf_counter() - fetched
            report.decode_ms += made_s * 1000
            started += made_s
        for part in parts:
            bolt.execute(part)
            report.execute_ms += (perf_counter() - started) * 1000
            yield
            started = perf_counter()

    def _portions(self, whole: TupleBatch, instance: Instance) -> Iterator[TupleBatch]:
        """Yield a blob's tuples in portions; the task sends after each. They are small if the bolt emits much."""
        most, emitter = self._plan.settings.most_buffer_bytes, instance.emitter
        start = 0
        while start < whole.size:
            before, size = emitter.bytes_out, min(instance.portion, whole.size - start)
            yield whole if size == whole.size else whole.part(start, start + size)
            start += size
            emitted = emitter.bytes_out - before
            if emitted > most:
                instance.portion = max(1, size * most // emitted)
            elif size == instance.portion:
                instance.portion = min(2 * size, _TUPLES_PER_SEND)

    def _header(self, message: TuplesMessage) -> StreamHeader:
        key = (message.source, message.stream)
        if key not in self._headers:
            component = message.source[0]
            fields = self._plan.wiring.streams[component][message.stream].fields
            receiver = receiver_key(*self._task)
            self._headers[key] = StreamHeader(
                component, message.task_id, message.stream, fields, receiver, self._attempt
            )
        return self._headers[key]

    def _fail(self, error: Exception) -> None:
        self.report.failure = as_failure(error, self._round.txid, self._plan.masking)
        # The wave will be rolled back, so the task sends nothing more. ROLLBACK still finds the instance.
        if self._instance is not None:
            self._instance.emitter.take()
            self._instance.attempt = ""


def _lineage(message: TuplesMessage) -> Lineage:
    from anchorbolt.streams.lineage import Lineage  # NumPy: only where tuple trees are tracked

    return Lineage.from_parts(message.lineage, message.size)
