"""Runs on Spark's Python workers: the stages of a wave, between Arrow batches and rows."""

from __future__ import annotations

import gc
import importlib
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_task, run_spout_task
from anchorbolt.engine.task.hooks import hook_failure, run_hook
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Row, encode_report
from anchorbolt.engine.task.round import Wave
from anchorbolt.errors import PlatformError
from anchorbolt.faults.injection import install_faults

WAVE_PROPERTY = "anchorbolt.wave"
"""Local property by which the driver tells the tasks of a job their wave."""

ROW_SCHEMA = "partition int, level int, destination int, payload binary"

_ARROW_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("level", pa.int32()), ("destination", pa.int32()), ("payload", pa.binary())]
)
_BATCH_BYTES = 4 << 20
_PLANS_KEPT = 8
_HOLD_S = 0.2

_registry = InstanceRegistry()
_plans: OrderedDict[str, ExecutionPlan] = OrderedDict()
_frozen = False


def run(
    kind: str, run_id: str, pickled: bytes, argument: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[Any]:
    """Run one task of a stage.

    Args:
        kind: `spout` (argument: its component), `bolts` (their level), `hook` (an action and its tasks) or `let_go`.
        run_id: Id of the run.
        pickled: Its pickled plan.
        argument: See `kind`.
        batches: The partition's Arrow batches.
    """
    plan = _plan(run_id, pickled)
    _freeze()
    return _KINDS[kind](plan, argument, batches)


def _spout(
    plan: ExecutionPlan, component: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = _task_context()
    sources = ((batch.num_rows, [column.to_pylist() for column in batch.columns]) for batch in batches)
    return _to_arrow(run_spout_task(plan, component, context.partitionId(), _wave(context), sources))


def _bolts(plan: ExecutionPlan, level: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = _task_context()
    task = plan.levels[level - 1][context.partitionId()]
    return _to_arrow(run_bolt_task(plan, task, _wave(context), _registry, _to_rows(batches)))


def _hook(
    plan: ExecutionPlan, argument: tuple[str, list[tuple[str, int]]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context = _task_context()
    action, tasks = argument
    task, wave = tasks[context.partitionId()], _wave(context)
    for _ in batches:
        try:
            run_hook(plan, Action(action), task, wave, _registry)
        except Exception as error:
            report = encode_report(hook_failure(error, task, wave))
            yield _batch([Row(0, plan.driver_level, 0, report)])


def _let_go(
    plan: ExecutionPlan, argument: None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        _registry.let_go_run(plan.run_id)
        time.sleep(
            _HOLD_S
        )  # keeps this worker busy, so that Spark gives the other tasks to the other workers
    yield from ()


_KINDS: dict[str, Callable[[ExecutionPlan, Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]] = {
    "spout": _spout,
    "bolts": _bolts,
    "hook": _hook,
    "let_go": _let_go,
}


def _plan(run_id: str, pickled: bytes) -> ExecutionPlan:
    plan = _plans.get(run_id)
    if plan is None:
        plan = _plans[run_id] = pickle.loads(pickled)  # noqa: S301 - made by this run's own driver
        while len(_plans) > _PLANS_KEPT:
            _plans.popitem(last=False)
    return plan


def _freeze() -> None:
    """Once a process: Spark's daemon collects garbage after every task, and need not scan what was imported.

    That includes what Spark and Arrow import only when they are first used: 35,000 objects, or most of the time that a
    worker spends on an almost empty wave.
    """
    global _frozen
    if not _frozen:
        importlib.import_module("pandas")  # Spark imports it with the first batch

        for kind in (pa.string(), pa.binary()):
            pa.array([None], type=kind).to_pylist()
        install_faults()
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        _frozen = True


def _task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise PlatformError("a stage of Anchorbolt ran outside a Spark task")
    return context


def _wave(context: TaskContext) -> Wave:
    text = context.getLocalProperty(WAVE_PROPERTY)
    if not text:
        raise PlatformError(f"Spark did not hand on the local property {WAVE_PROPERTY}; the wave is unknown")
    return Wave.from_text(text)


def _to_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from map(Row, *(column.to_pylist() for column in batch.columns))


def _to_arrow(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    waiting: list[Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row.payload)
        if size >= _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, _ARROW_SCHEMA, strict=True)],
        schema=_ARROW_SCHEMA,
    )
