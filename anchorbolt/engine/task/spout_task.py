"""A stream spout's task in one round: emits its partition of the source's batch, then PREPARE, then a report."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any

from anchorbolt.checkpoint.ports import Round
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.messages import Envelope, TaskReport, as_failure
from anchorbolt.errors import WaveFailed
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.util.messages import shortened

_FIRST_CAPACITY = 512  # tuples in the first buffer; the emitter decides on the next ones

SourceRows = tuple[int, Sequence[Sequence[Any]]]
"""Rows of a source: how many, and one list of values per column."""


def run_spout_task(
    plan: ExecutionPlan, component: str, index: int, current: Round, rows: Iterable[SourceRows]
) -> Iterator[Envelope]:
    """Yield what the task of a stream spout sends; `index` is that of the source's partition."""
    attempt = uuid.uuid4().hex
    emitter = Emitter(plan, (component, index))
    emitter.begin(attempt)
    at_task(component, index, current.txid)
    report = TaskReport((component, index), attempt, current.fence.seq)
    [(stream, declaration)] = plan.streams[component].items()
    fields = declaration.fields
    waiting = iter(rows)
    try:
        reach(FaultPoint.TASK_BEGUN)
        capacity = _FIRST_CAPACITY
        while True:
            started = perf_counter()
            arrived = next(waiting, None)
            report.source_ms += (perf_counter() - started) * 1000
            if arrived is None:
                break
            size, columns = arrived
            if len(columns) != len(fields):
                raise WaveFailed(
                    f"spout {component!r} declares the fields {', '.join(fields)}, but its source has "
                    f"{len(columns)} columns. Name one field per column.",
                    txid=current.txid,
                )
            report.tuples_in += size
            report.tuples_out += size
            values = list(zip(*columns, strict=True))
            start = 0
            while start < size:
                buffer = values[start : start + capacity]
                capacity = emitter.flush(stream, buffer)
                start += len(buffer)
                yield from emitter.take()
        emitter.forward(CheckpointTuple(current.txid, Action.PREPARE))
        reach(FaultPoint.TASK_PREPARED)
    except UnicodeDecodeError as error:
        refused = WaveFailed(
            f"the source of spout {component!r} has text that is not UTF-8: {shortened(error.object)}. Decode the "
            "column in the source, by functions.decode(column.cast('binary'), 'ISO-8859-1') for instance, or replace "
            "invalid bytes by functions.make_valid_utf8(column).",
            txid=current.txid,
        )
        report.failure = as_failure(refused, current.txid)
    except Exception as error:
        report.failure = as_failure(error, current.txid)
    report.bytes_out = emitter.bytes_out
    emitter.report(report)
    yield from emitter.take()
