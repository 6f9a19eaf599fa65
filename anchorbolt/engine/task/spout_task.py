"""A spout's task in one round: sends its part of the wave's source data, then PREPARE, then a report."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import Round
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.messages import Envelope, TaskReport, as_failure
from anchorbolt.errors import WaveFailed
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.util.messages import shortened

_FIRST_CAPACITY = 512  # tuples in the first buffer; the emitter decides on the next ones


class SourceRows(NamedTuple):
    """Rows of a source, for one stream."""

    stream: str
    size: int  # number of rows
    columns: Sequence[Sequence[Any]]  # one list of values per column; in front those of a direct stream's task ids

    def rows(self, *, direct: bool) -> list[Any]:
        """Return the values of each row; of a direct stream, `(task id, values)`."""
        rows = list(zip(*self.columns, strict=True)) if self.columns else [()] * self.size
        return [(row[0], row[1:]) for row in rows] if direct else rows


def run_spout_task(
    plan: ExecutionPlan, component: str, index: int, current: Round, rows: Iterable[SourceRows]
) -> Iterator[Envelope]:
    """Yield what a spout's task sends; for a stream spout, `index` is that of the source's partition."""
    attempt = uuid.uuid4().hex
    emitter = Emitter(plan, (component, index))
    emitter.begin(attempt)
    at_task(component, index, current.txid)
    report = TaskReport((component, index), attempt, current.fence.seq)
    streams = plan.streams[component]
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
            stream, size, columns = arrived
            fields, direct = streams[stream].fields, streams[stream].direct
            if len(columns) != len(fields) + direct:
                raise WaveFailed(
                    f"spout {component!r} declares the fields {', '.join(fields)}, but its source has "
                    f"{len(columns)} columns. Name one field per column.",
                    txid=current.txid,
                )
            report.tuples_in += size
            report.tuples_out += size
            values = arrived.rows(direct=direct)
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
