"""Runs the stages of a round on Spark's Python workers; converts between Arrow batches and envelopes."""

import importlib
import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, TaskContext

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.intake.client import (
    AskedBatchDriver,
    IntakeAddress,
    asked_intake,
    asked_replays,
    report_long_calls,
)
from anchorbolt.engine.spark.runs import RUNS_PROPERTY, KnownRuns
from anchorbolt.engine.spark.sources.maps import with_dicts
from anchorbolt.engine.spark.worker_log import set_up_process, tell_left_out
from anchorbolt.engine.task.bolt_task import run_bolt_tasks
from anchorbolt.engine.task.commit_task import CommitGroup, run_commit_task
from anchorbolt.engine.task.emitter_task import run_emitter_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, as_failure, encode_report
from anchorbolt.engine.task.probe import probe_places
from anchorbolt.engine.task.round_text import attempt_id, round_from_text
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.engine.task.value_checks import checked_values
from anchorbolt.engine.workers.feed import Feed
from anchorbolt.engine.workers.links import Secret
from anchorbolt.errors import PlatformError
from anchorbolt.streams.arrow_types import wrong_type
from anchorbolt.streams.columns import Column
from anchorbolt.streams.declaration import DEFAULT_STREAM

ROUND_PROPERTY = "anchorbolt.round"  # a local property of the Spark job
WORKERS_PROPERTY = "anchorbolt.workers"  # likewise, of a job that feeds workers: see `table_to_text`
ENVELOPE_SCHEMA = "partition int, level int, destination int, payload binary"

_ARROW_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("level", pa.int32()), ("destination", pa.int32()), ("payload", pa.binary())]
)
_BATCH_BYTES = 4 << 20
_PLANS_KEPT = 8
_HOLD_S = 0.1

_registry = InstanceRegistry()
_plans: dict[str, ExecutionPlan] = {}  # oldest first
_known_runs = KnownRuns()
_last_round: tuple[str, str, Round] | None = None  # the plan's run, the text, and the round

_Batches = Iterator[pa.RecordBatch]

Ended = Accumulator[list[tuple[TaskKey, int]]]
"""The ended bolt tasks of a job, with the number of tuples that each executed. Spark sends an entry as a task ends."""


def run(kind: str, run_id: str, pickled: bytes, argument: Any, batches: _Batches) -> _Batches:
    """Run one task of a stage; `pickled` is the plan of the run `run_id`.

    The kinds and their arguments: `spout` (component), `feed` (component, and the secret of the workers), `intake` (the
    driver's address, and the number of partitions), `bolts` (stage, `Ended`, and the driver's address for long calls),
    `emit` (the driver's addresses, for batches and for long calls), `commit` (`Ended`, and the driver's address for
    long calls), `checkpoint` (checkpoint tuple, tasks, and `Ended`), `commit state` (groups, threads, and `Ended`),
    `close` (the ids of the ended runs), `probe` (the places, the name of the probe's folder in each, and the content of
    its files).
    """
    context = TaskContext.get()
    if context is None:
        raise PlatformError("a stage of Anchorbolt ran outside a Spark task")
    told = context.getLocalProperty(RUNS_PROPERTY)
    if told:
        _close_runs(_known_runs.ended(run_id, told, [*_registry.runs, *_plans]))
    if kind == "close":
        return _close(argument, batches)
    plan = _plan(run_id, pickled)
    _load()
    return _KINDS[kind](plan, context, argument, batches)


def kept() -> tuple[int, int, int]:
    """Return how many runs, plans and committed entries this process keeps."""
    return len(_registry.runs), len(_plans), _registry.cached_entries


def _spout(plan: ExecutionPlan, context: TaskContext, component: str, batches: _Batches) -> _Batches:
    return _to_arrow(_spout_task(plan, context, component, _round(plan, context), batches))


def _spout_task(
    plan: ExecutionPlan, context: TaskContext, component: str, current: Round, batches: _Batches
) -> Iterator[Envelope]:
    def rows_of(batch: pa.RecordBatch) -> SourceRows:
        # In a transactional topology the first value of each tuple is the attempt.
        attempts = [] if current.batch is None else [[current.batch.attempt] * batch.num_rows]
        columns = [_column_of_source(column, checks=current.checks) for column in batch.columns]
        return SourceRows(DEFAULT_STREAM, batch.num_rows, attempts + columns)

    return run_spout_task(plan, component, context.partitionId(), current, map(rows_of, batches))


def _column_of_source(column: pa.Array, *, checks: bool) -> Column:
    """Return a column as it is if each of its values can be read. Raises `UnicodeDecodeError` without `checks`."""
    if not checks and not wrong_type(column.type):
        try:
            column.validate(full=True)  # text must be UTF-8
        except pa.ArrowInvalid:
            pass  # raises when it becomes a list
        else:
            return column
    return with_dicts(column.type, checked_values(column) if checks else column.to_pylist())


def _feed(plan: ExecutionPlan, context: TaskContext, argument: tuple[str, Secret], batches: _Batches) -> _Batches:
    component, secret = argument
    current = _round(plan, context)
    feed = Feed(plan, secret, context.getLocalProperty(WORKERS_PROPERTY) or "", current.txid)
    return _to_arrow(feed.pushed(_spout_task(plan, context, component, current, batches)))


def _intake(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[IntakeAddress | None, int], batches: _Batches
) -> _Batches:
    address, partitions = argument
    current = _round(plan, context)

    def sent(partition: int) -> Iterator[Envelope]:
        if partition == 0 and plan.replays_letters:
            assert address is not None
            for task, rows_of_task in asked_replays(address, current.txid):
                yield from run_spout_task(plan, *task, current, rows_of_task)
        for component, index in plan.wiring.rich_spout_tasks[partition::partitions]:
            assert address is not None
            with asked_intake(address, (component, index), current.txid) as intake:
                yield from run_spout_task(plan, component, index, current, *intake)

    # The row holds the partition's number: in a union, Spark numbers the partitions of all its frames together.
    for batch in batches:
        for partition in batch.column(0).to_pylist():
            yield from _to_arrow(sent(partition))


def _bolts(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[int, Ended, IntakeAddress | None], batches: _Batches
) -> _Batches:
    stage, ended, calls = argument
    report_long_calls(calls)
    tasks = plan.wiring.stages[stage - 1][context.partitionId()]

    def sent() -> Iterator[Envelope]:
        current = _round(plan, context)
        attempts = [attempt_id(plan, current, context.taskAttemptId(), position) for position in range(len(tasks))]
        executed = yield from run_bolt_tasks(plan, tasks, current, _registry, _to_envelopes(batches), attempts)
        ended.add(list(executed.items()))

    return _to_arrow(sent())


def _emit(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[IntakeAddress, IntakeAddress | None], batches: _Batches
) -> _Batches:
    address, calls = argument
    report_long_calls(calls)
    for _ in batches:
        task = plan.wiring.batch_spout, context.partitionId()
        yield from _to_arrow(run_emitter_task(plan, task, _round(plan, context), _registry, AskedBatchDriver(address)))


def _commit(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[Ended, IntakeAddress], batches: _Batches
) -> _Batches:
    """Run a partition of the first stage of a commit phase, which gets nothing from other tasks."""
    for _ in batches:
        yield from _bolts(plan, context, (1, *argument), iter(()))


def _checkpoint(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[CheckpointTuple, list[TaskKey], Ended], batches: _Batches
) -> _Batches:
    checkpoint, tasks, ended = argument
    task, current = tasks[context.partitionId()], _round(plan, context)
    for _ in batches:
        try:
            _registry.handle(plan, checkpoint, task, current)
        except Exception as error:
            report = TaskReport(task, "", current.fence.seq, failure=as_failure(error, current.txid, plan.masking))
            yield _batch([Envelope(0, plan.wiring.driver_level, 0, encode_report(report))])
        ended.add([(task, 0)])


def _commit_state(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[Sequence[CommitGroup], int, Ended], batches: _Batches
) -> _Batches:
    groups, threads, ended = argument
    group = groups[context.partitionId()]
    for _ in batches:
        yield _batch(run_commit_task(plan, group, _round(plan, context), threads))
        ended.add([(group.task, 0)])


def _close(run_ids: list[str], batches: _Batches) -> _Batches:
    for _ in batches:
        _close_runs(run_ids)
        tell_left_out()
        time.sleep(_HOLD_S)  # keep this worker busy, so that the other workers get the other tasks
    yield from ()


def _probe(
    plan: ExecutionPlan, context: TaskContext, argument: tuple[list[str], str, bytes], batches: _Batches
) -> _Batches:
    """Check the places of the run from this machine, before the run begins."""
    for _ in batches:
        found = [json.dumps(each).encode() for each in probe_places(plan.locations, *argument)]
        yield _batch([Envelope(0, plan.wiring.driver_level, 0, payload) for payload in found])


def _close_runs(run_ids: Iterable[str]) -> None:
    global _last_round
    for run_id in run_ids:
        _registry.close_run(run_id)
        _plans.pop(run_id, None)
        if _last_round is not None and _last_round[0] == run_id:
            _last_round = None


_KINDS: dict[str, Callable[[ExecutionPlan, TaskContext, Any, _Batches], _Batches]] = {
    "spout": _spout,
    "feed": _feed,
    "intake": _intake,
    "bolts": _bolts,
    "emit": _emit,
    "commit": _commit,
    "checkpoint": _checkpoint,
    "commit state": _commit_state,
    "probe": _probe,
}


def _plan(run_id: str, pickled: bytes) -> ExecutionPlan:
    if run_id not in _plans:
        _plans[run_id] = pickle.loads(pickled)  # noqa: S301 - made by this run's own driver
        while len(_plans) > _PLANS_KEPT:
            del _plans[next(iter(_plans))]
    return _plans[run_id]


def _load() -> None:
    """Load what Spark loads with the first batch, before all is excluded from garbage collection."""
    importlib.import_module("pandas")
    for kind in (pa.string(), pa.binary()):
        pa.array([None], type=kind).to_pylist()
    set_up_process()


def _round(plan: ExecutionPlan, context: TaskContext) -> Round:
    global _last_round
    text = context.getLocalProperty(ROUND_PROPERTY)
    if not text:
        raise PlatformError(f"Spark did not pass on the local property {ROUND_PROPERTY}: the round is unknown")
    if _last_round is None or _last_round[:2] != (plan.run_id, text):
        _last_round = plan.run_id, text, round_from_text(plan, text)
    return _last_round[2]


def _to_envelopes(batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    for batch in batches:
        yield from map(Envelope, *(column.to_pylist() for column in batch.columns))


def _to_arrow(envelopes: Iterable[Envelope]) -> Iterator[pa.RecordBatch]:
    waiting: list[Envelope] = []
    size = 0
    for envelope in envelopes:
        waiting.append(envelope)
        size += len(envelope.payload)
        if size >= _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(envelopes: list[Envelope]) -> pa.RecordBatch:
    columns = zip(*envelopes, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, _ARROW_SCHEMA, strict=True)],
        schema=_ARROW_SCHEMA,
    )
