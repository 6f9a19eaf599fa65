"""A spout's task in one round: sends its part of the wave's source data, then PREPARE, then a report."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import compress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.checkpoint.ports import Others, Probe, Round
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.messages import Envelope, TaskReport, as_failure
from anchorbolt.engine.task.value_checks import UndecodedText
from anchorbolt.errors import AnchorboltError, TopologyError, UnsupportedValue, WaveFailed
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.serialization import pack
from anchorbolt.streams.columns import Column, fitting, rows_of, taken
from anchorbolt.streams.tuple import TupleHandle
from anchorbolt.util.messages import described, printable, shortened

if TYPE_CHECKING:
    from anchorbolt.tracking.sorted_roots import Roots
    from anchorbolt.tracking.task_tracker import TaskTracker

_FIRST_CAPACITY = 512  # tuples in the first buffer; the emitter sets the size of the next ones


REPLAYING_TASK = 1_000_000
"""The index of a spout's task that replays dead letters."""


class SourceRows(NamedTuple):
    """Rows of a source, for one stream."""

    stream: str
    size: int  # number of rows
    columns: Sequence[Column]  # in a direct stream, the first has task ids
    roots: Roots | None = None  # of each row, 0 if it is not tracked; None if no row is tracked
    msg_ids: Sequence[bytes] = ()  # the packed message ids of the rows with a root

    def kept(self, is_kept: Sequence[bool]) -> SourceRows:
        """Return the rows with True in `is_kept`, without message ids."""
        import numpy as np  # only in rounds that leave out some rows

        positions = np.flatnonzero(is_kept)
        columns = [taken(column, positions) for column in self.columns]
        roots = None if self.roots is None else self.roots[positions]
        return SourceRows(self.stream, len(positions), columns, roots)


def run_spout_task(
    plan: ExecutionPlan,
    component: str,
    index: int,
    current: Round,
    rows: Iterable[SourceRows],
    excluded: Set[int] = frozenset(),
    expired: Roots | None = None,
    moves: Mapping[int, bytes] | None = None,
) -> Iterator[Envelope]:
    """Yield the blobs that a spout's task sends.

    Args:
        plan: The plan.
        component: Id of the spout.
        index: Index of the task; for a stream spout, index of the source's partition.
        current: The round.
        rows: The task's part of the source data.
        excluded: Roots of this wave whose tuples are not sent, because they failed in an earlier round.
        expired: Roots of earlier waves that have timed out.
        moves: By acker: the open trees that it must remove and add.
    """
    attempt = uuid.uuid4().hex
    tracker = None
    is_rich = (component, index) in plan.wiring.rich_spout_tasks
    if current.isolates or (plan.is_tracked and is_rich):
        from anchorbolt.tracking.task_tracker import TaskTracker  # NumPy: only where tuple trees are tracked

        tracker = TaskTracker(
            component,
            index,
            plan.wiring.task_id((component, index)) if is_rich else 0,
            counts=plan.wiring.ackers > 0,
            mask=plan.masking.text,
        )
        tracker.keeps_failures = current.isolates
    emitter = Emitter(plan, (component, index), tracker)
    emitter.begin(attempt)
    emitter.excluded = excluded if tracker is not None else frozenset()
    emitter.moves = moves or {}
    at_task(component, index, current.txid)
    report = TaskReport((component, index), attempt, current.fence.seq)
    streams = plan.wiring.streams[component]
    waiting = iter(rows)
    stream_rows = None if is_rich else StreamRows(component, index, current)
    is_sending = False
    try:
        reach(FaultPoint.TASK_BEGUN)
        capacity, most = _FIRST_CAPACITY, plan.settings.most_buffer_bytes
        while True:
            started = perf_counter()
            arrived = next(waiting, None)
            report.source_ms += (perf_counter() - started) * 1000
            if arrived is None:
                break
            stream, msg_ids = arrived.stream, arrived.msg_ids
            fields, direct = streams[stream].fields, streams[stream].direct
            if len(arrived.columns) != len(fields) + direct:
                raise WaveFailed(
                    f"spout {component!r} declares the fields {', '.join(fields)}, but its source has "
                    f"{len(arrived.columns)} columns. Name one field per column.",
                    txid=current.txid,
                )
            report.tuples_in += arrived.size
            items: list[Any] | None = None
            if stream_rows is not None:
                arrived, items = stream_rows.kept(arrived, report)
            elif arrived.roots is not None:
                roots = arrived.roots.tolist()
                if current.probe is not None:
                    kept = _probed(current.probe, roots, excluded, report)
                    msg_ids = list(compress(msg_ids, compress(kept, roots)))
                    arrived, roots = arrived.kept(kept), list(compress(roots, kept))
                if tracker is not None:
                    items = [root or () for root in roots]
                    if plan.wiring.ackers:
                        assert arrived.roots is not None
                        _open_trees(tracker, arrived.roots, msg_ids, excluded)
                elif excluded:
                    arrived = arrived.kept([root not in excluded for root in roots])
            if current.checks:
                failing = tracker if current.isolates else None
                arrived, items = sendable_rows(emitter, arrived, items, failing, direct=direct)
            report.tuples_out += arrived.size
            start, is_sending = 0, True
            while start < arrived.size:
                columns = [taken(column, slice(start, start + capacity)) for column in arrived.columns]
                size = fitting(min(capacity, arrived.size - start), columns, most)
                columns = [taken(column, slice(size)) for column in columns]
                tasks = columns.pop(0) if direct else ()
                capacity = emitter.send(stream, size, columns, tasks, items and items[start : start + size])
                start += size
                yield from emitter.take()
            is_sending = False
        if tracker is not None and expired is not None:
            tracker.expire(expired)
        emitter.forward(CheckpointTuple(current.txid, Action.PREPARE))
        if tracker is not None and current.isolates:
            report.failed_trees = list(tracker.failures.values())
        reach(FaultPoint.TASK_PREPARED)
    except UnicodeDecodeError as error:
        refused = WaveFailed(
            f"the source of spout {component!r} has text that is not UTF-8: {shortened(error.object)}. Decode the "
            "column in the source, by functions.decode(column.cast('binary'), 'ISO-8859-1') for instance, or replace "
            "invalid bytes by functions.make_valid_utf8(column). For a KafkaTransactionalSpout, pass decode=False.",
            txid=current.txid,
        )
        refused.found_late = True
        report.failure = as_failure(refused, current.txid, plan.masking)
    except Exception as error:
        report.failure = as_failure(error, current.txid, plan.masking)
        report.failure.found_late = is_sending
    if report.failure is not None:
        emitter.give_up()
    emitter.report(report)
    yield from emitter.take()


class StreamRows:
    """The rows of one partition of a stream spout, in rounds that track or leave out some of them.

    A row's root follows from its position in the batch, which is the same in each round.
    """

    def __init__(self, component: str, index: int, current: Round) -> None:
        self._seed = f"{component}/{index}/{current.txid}"
        self._isolates = current.isolates
        self._excluded = current.excluded_rows
        self._probe = current.probe
        self._row = 0

    def kept(self, rows: SourceRows, report: TaskReport) -> tuple[SourceRows, list[Any] | None]:
        """Return the rows to send, and their roots if they are tracked; add the other rows to the report."""
        if not (self._isolates or self._excluded or self._probe):
            return rows, None
        from anchorbolt.streams.lineage import IdSource, ids_of

        roots = ids_of((IdSource(self._seed).draw(1) + self._row) % (1 << 64), rows.size).tolist()
        self._row += rows.size
        if self._excluded:
            excluded = [root in self._excluded for root in roots]
            values = rows_of(rows.size, rows.columns)
            for row, root in compress(zip(values, roots, strict=True), excluded):
                report.left_out.append((root, rows.stream, packed_row(row)))
            kept = [not each for each in excluded]
            rows, roots = rows.kept(kept), list(compress(roots, kept))
        if self._probe is not None:
            kept = _probed(self._probe, roots, frozenset(), report)
            rows, roots = rows.kept(kept), list(compress(roots, kept))
        return rows, roots if self._isolates else None


def _probed(probe: Probe, roots: Sequence[int], excluded: Set[int], report: TaskReport) -> list[bool]:
    """Return which tuples a probe sends; note the tuples of the other half in the report."""
    first, middle, end = probe
    others = [root for root in roots if middle <= root < end and root not in excluded]
    if others:
        report.others = Others.joined([report.others, Others(min(others), max(others), len(others))])
    return [first <= root < middle for root in roots]


def _open_trees(tracker: TaskTracker, roots: Roots, msg_ids: Sequence[bytes], excluded: Set[int]) -> None:
    tracked = roots[roots != 0]
    if excluded:
        kept = [position for position, root in enumerate(tracked.tolist()) if root not in excluded]
        tracked, msg_ids = tracked[kept], [msg_ids[position] for position in kept]
    tracker.open_trees(tracked, msg_ids)


def sendable_rows(
    emitter: Emitter, rows: SourceRows, items: Sequence[Any] | None, failing: TaskTracker | None, *, direct: bool
) -> tuple[SourceRows, list[Any] | None]:
    """Return the rows that can be sent, and their roots; fail the trees of the other rows in `failing`.

    Raises `UnsupportedValue` or `TopologyError` for such a row if it has no tree, or without `failing`.
    """
    kept = []
    for position, values in enumerate(rows_of(rows.size, rows.columns)):
        row = (values[0], values[1:]) if direct else values
        item = () if items is None else items[position]
        kept.append(False)
        try:
            emitter.check(rows.stream, row)
        except Exception as error:
            if item in emitter.excluded:
                continue
            problem = error.message if isinstance(error, AnchorboltError) else described(error)
            if failing is None or item == ():
                kind = TopologyError if isinstance(error, TopologyError) else UnsupportedValue
                raise kind(f"{problem} It is in the tuple {shortened(row, 200)}.") from error
            failing.fail(TupleHandle(0, 0, item), printable(problem))
            continue
        kept[-1] = True
    return rows.kept(kept), None if items is None else list(compress(items, kept))


def packed_row(values: Iterable[Any]) -> bytes:
    """Encode a row for a dead letter; replace a value that cannot be encoded by its bytes or its shortened text."""
    return pack([_keepable(value) for value in values])


def _keepable(value: Any) -> Any:
    if isinstance(value, UndecodedText):
        return value.data
    try:
        pack(value)
    except UnsupportedValue:
        return printable(shortened(value, 1_000))
    return value
