"""Makes the records of a run. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import UNSET, structs

from anchorbolt.checkpoint.coordinator import FAILURES_KEPT, RecoveryReport
from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.config.masking import Masking
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.wave_report import PHASES, WaveReport
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.observe.history.failures import holders_of, letters_in_record, messages_of, raised_in
from anchorbolt.observe.history.records import (
    MOST_BYTES,
    End,
    Graph,
    GraphComponent,
    Input,
    Letter,
    Start,
    Wave,
    encoded,
)
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.topology.graph import BoltSpec, Component
from anchorbolt.util.messages import bounded

_MOST_TEXT = 2000
_MESSAGES_IN_RECORD = 5
_HOLDERS_IN_RECORD = 20


def graph_of(plan: ExecutionPlan) -> Graph:
    """Return the graph of a plan."""
    levels = {component: number for number, level in enumerate(plan.graph.levels) for component in level}
    components = [_component(plan, spec, levels[name]) for name, spec in plan.graph.components.items()]
    if plan.wiring.ackers:
        tasks, last = len(plan.wiring.tasks[ACKER_ID]), max(levels.values()) + 1
        components.append(GraphComponent(id=ACKER_ID, kind="acker", type="", level=last, tasks=tasks))
    return Graph(plan.topology, components)


def _component(plan: ExecutionPlan, spec: Component, level: int) -> GraphComponent:
    # A stream spout has a task per partition of its batch: they count as one.
    tasks = len(plan.wiring.tasks.get(spec.id, [spec.id]))
    if not isinstance(spec, BoltSpec):
        return GraphComponent(id=spec.id, kind="spout", type=type(spec.spout).__name__, level=level, tasks=tasks)
    return GraphComponent(
        id=spec.id,
        kind="bolt",
        type=spec.type_name,
        level=level,
        tasks=tasks,
        inputs=[Input(each.source.component, each.source.stream, str(each.grouping)) for each in spec.inputs],
        stateful=spec.is_stateful,
        sink=spec.is_sink,
        committer=spec.is_committer,
        chained_to=plan.graph.chained.get(spec.id, UNSET),
    )


def start_record(recovery: RecoveryReport, graph: Graph, at: float) -> Start:
    """Return the record of a driver that has recovered, with its graph."""
    record = Start(
        at=at,
        generation=recovery.generation,
        txid=recovery.txid,
        action=recovery.action,
        recovery_ms=round(recovery.ms, 1),
        graph=graph,
    )
    return record if len(encoded(record)) <= MOST_BYTES else structs.replace(record, graph=None)


def end_record(
    generation: int, txid: int, status: str, failure: BaseException | None, at: float, masking: Masking
) -> End:
    """Return the record of the end of a run; `txid` is the last committed one."""
    record = End(at=at, generation=generation, txid=txid, status=status)
    if failure is None:
        return record
    return structs.replace(
        record, error=type(failure).__name__, failure=bounded(masking.text(str(failure)), _MOST_TEXT)
    )


def wave_record(
    generation: int,
    report: WaveReport,
    tasks: Sequence[TaskReport],
    at: float,
    *,
    failed_ms: float = 0.0,
    failed_rounds: Sequence[FailedRound] = (),
    letters: Sequence[Letter] = (),
) -> Wave:
    """Return the record of a committed wave, with its failed rounds, their time, and its dead letters."""
    record = Wave(
        at=at,
        generation=generation,
        txid=report.txid,
        batch_id=report.batch_id,
        total_ms=round(report.total_ms, 1),
        failed_ms=round(failed_ms, 1),
        phases_ms={phase: round(getattr(report, f"{phase}_ms"), 1) for phase in PHASES},
        rounds=report.rounds,
        repeats=_repeats(report),
        losses=report.losses,
        failures=list(report.round_failures),
        raised=raised_in(failed_rounds),
        executed=dict(report.tuples_in),
        emitted=dict(report.tuples_out),
        bytes_shuffled=report.bytes_shuffled,
        keys_read=report.keys_read,
        keys_staged=report.keys_staged,
        bytes_staged=sum(task.outcome.counters.bytes_staged for task in tasks),
        acked=sum(report.messages_acked.values()),
        failed=sum(report.messages_failed.values()),
        dead_letters=sum(report.dead_letters.values()),
        letters=letters_in_record(letters),
        messages=messages_of(report.failures[:_MESSAGES_IN_RECORD]),
        timed_out=holders_of(report.messages_timed_out, _HOLDERS_IN_RECORD),
        throttled=report.throttled,
        offsets_behind=report.offsets_behind,
        files_waiting=report.files_waiting,
        tasks=_spreads(tasks),
    )
    if len(encoded(record)) > MOST_BYTES:  # a topology of hundreds of components
        record = structs.replace(record, tasks={}, executed={}, emitted={})
    if len(encoded(record)) > MOST_BYTES:  # long texts, which JSON makes up to six times as long
        record = structs.replace(record, failures=record.failures[:1], raised=None, letters=[], messages=[])
    return record


def _repeats(report: WaveReport) -> int:
    """Return the number of rounds run again to leave out failed messages; 0 if too many failed for other reasons."""
    told = len(report.round_failures)
    return report.rounds - 1 - told if told < FAILURES_KEPT else 0


_Spreads = dict[str, int | Sequence[float]]

_SPREAD = ("start_ms", "aligned_ms", "prepare_ms", "stage_ms", "seal_ms", "execute_ms", "executed", "bytes_staged")
# In the same order. One getter of all is several times as fast as a getter of each.
_QUANTITIES: Callable[[TaskReport], tuple[float, ...]] = attrgetter(
    *("began_at", "aligned_ms", "prepare_ms", "stage_ms", "seal_ms", "execute_ms", "tuples_in"),
    "outcome.counters.bytes_staged",
)


def _spreads(tasks: Sequence[TaskReport]) -> dict[str, _Spreads]:
    """Return the least, the median and the most of each quantity over a component's tasks, by component."""
    rows: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for task in tasks:
        rows[task.task[0]].append(_QUANTITIES(task))
    first = min((task.began_at for task in tasks), default=0.0)
    return {component: _spreads_of(found, first) for component, found in rows.items()}


def _spreads_of(rows: Sequence[tuple[float, ...]], first: float) -> _Spreads:
    began_at, *others = map(sorted, zip(*rows, strict=True))
    ordered = [[(each - first) * 1000 for each in began_at], *others]
    return {"tasks": len(rows), **dict(zip(_SPREAD, map(_spread, ordered), strict=True))}


def _spread(ordered: Sequence[float]) -> list[float]:
    middle = len(ordered) // 2
    median = (ordered[middle] + ordered[-middle - 1]) / 2
    return [round(each, 2) for each in (ordered[0], median, ordered[-1])]
