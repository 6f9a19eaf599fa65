"""One component with its tasks, page by page, and the spread of their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from msgspec import UNSET, UnsetType, structs

from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.observe.history.records import Input
from anchorbolt.ui.answers import (
    Component,
    ComponentError,
    ComponentTime,
    Executor,
    InputStats,
    OutputStats,
    Spread,
    Stats,
    Target,
)
from anchorbolt.ui.model.observation import (
    ALL_WINDOWS,
    Latency,
    Observation,
    OneTask,
    WindowFigures,
    execute_latency_ms,
)
from anchorbolt.ui.model.text import decimal, encoded, pretty_window, storm_status
from anchorbolt.ui.model.topology import acked_by_bolt, amounts, complete_latency, errors, lapsed_secs, skew

SORTS: Mapping[str, Figure | None] = {
    "task": None,
    "executed": Figure.EXECUTED,
    "emitted": Figure.EMITTED,
    "failed": Figure.FAILED,
    "capacity": Figure.BUSY_MS,
    "keysStaged": Figure.KEYS_STAGED,
    "bytesStaged": Figure.BYTES_STAGED,
}
MOST_TASKS = 200
"""Limit of an answer."""

_ONCE = ("shuffle", "fields", "partial_key", "global", "none", "local_or_shuffle", "direct")
"""Groupings that send each tuple to one task."""

_BARS = 20
_SPREAD_FIGURES = {
    "executed": Figure.EXECUTED,
    "executeMs": Figure.EXECUTE_MS,
    "prepareMs": Figure.PREPARE_MS,
    "stageMs": Figure.STAGE_MS,
    "sealMs": Figure.SEAL_MS,
    "bytesStaged": Figure.BYTES_STAGED,
}


def component(seen: Observation, name: str, window: str, *, first: int, count: int, sort: str) -> Component | None:
    """Return the answer of `/api/v1/topology/{id}/component/{component}`; None if there is no such component.

    `executorStats` has at most `count` tasks from position `first`. `sort` is a figure, of which most comes first, or
    `task`. `spread` covers all tasks.
    """
    described = seen.component(name)
    if described is None:
        return None
    figures = seen.window(window)
    found = figures.component(name)
    is_spout, seconds = described.kind == "spout", max(figures.seconds, 1e-3)
    stats = [_stats(seen, name, each) for each in ALL_WINDOWS]
    of_one: dict[str, Any] = {"transferred": figures.transferred_from(name)} if len(found.tasks) == 1 else {}
    return Component(
        id=name,
        encoded_id=encoded(name),
        name=seen.topology,
        topology_id=seen.topology,
        encoded_topology_id=encoded(seen.topology),
        topology_status=storm_status(seen.status),
        component_type="spout" if is_spout else "bolt",
        type=described.type,
        chained_to=described.chained_to,
        window=window,
        window_hint=pretty_window(window),
        window_seconds=round(figures.seconds, 3),
        tasks=described.tasks,
        executors=described.tasks,
        spout_summary=stats if is_spout else UNSET,
        bolt_stats=UNSET if is_spout else stats,
        input_stats=[_input(seen, figures, name, each, described.inputs) for each in described.inputs],
        output_stats=_outputs(seen, figures, name),
        executors_total=len(found.tasks),
        executors_first=first,
        executor_stats=[
            structs.replace(_executor(seen, each, seconds, is_spout=is_spout), **of_one)
            for each in _sorted(found.tasks, sort)[first : first + count]
        ],
        skew=skew(found),
        spread={
            label: spread_of([each.amounts.get(figure, 0) for each in found.tasks])
            for label, figure in _SPREAD_FIGURES.items()
            if found.tasks
        },
        time=_time(seen, name),
        component_errors=[
            ComponentError(error=each.text, error_time=int(each.at), error_lapsed_secs=lapsed_secs(seen, each))
            for each in errors(seen, name)
        ],
    )


def _stats(seen: Observation, name: str, window: str) -> Stats:
    figures = seen.window(window)
    found = figures.component(name)
    stats = Stats(
        **amounts(found.amounts),
        window=window,
        window_pretty=pretty_window(window),
        transferred=figures.transferred_from(name),
        execute_latency=decimal(execute_latency_ms(found.amounts)),
        capacity=decimal(found.capacity),
    )
    if messages := figures.messages.get(name):
        acked, failed = int(messages["acked"]), int(messages["failed"])
        return structs.replace(stats, acked=acked, failed=failed, complete_latency=complete_latency(figures, name))
    return structs.replace(stats, acked=acked_by_bolt(seen, found.amounts))


def _time(seen: Observation, name: str) -> ComponentTime | UnsetType:
    times = seen.times.get(name)
    if times is None:
        return UNSET
    return ComponentTime(
        watermark=times.watermark,
        watermark_lag_ms=None if times.watermark is None else int(seen.at * 1000) - times.watermark,
        timers_waiting=times.waiting,
    )


def _executor(seen: Observation, task: OneTask, seconds: float, *, is_spout: bool) -> Executor:
    stats = Executor(
        **amounts(task.amounts),
        id=str(task.index),
        encoded_id=str(task.index),
        executed_per_second=round(task.amounts.get(Figure.EXECUTED, 0) / seconds, 2),
        execute_latency=decimal(execute_latency_ms(task.amounts)),
        capacity=decimal(task.capacity),
    )
    if not is_spout:
        return structs.replace(stats, acked=acked_by_bolt(seen, task.amounts))
    if task.messages is None:  # only rich spouts have messages
        return structs.replace(stats, failed=UNSET)
    acked, failed, complete_ms, completed = task.messages
    latency = decimal(Latency(complete_ms, int(completed)).mean_ms)
    return structs.replace(stats, acked=int(acked), failed=int(failed), complete_latency=latency)


def _sorted(tasks: Sequence[OneTask], sort: str) -> Sequence[OneTask]:
    figure = SORTS[sort]
    if figure is None:
        return sorted(tasks, key=lambda each: each.index)

    def amount(task: OneTask) -> float:
        if figure is Figure.FAILED and task.messages is not None:
            return task.messages.failed
        return task.amounts.get(figure, 0)

    return sorted(tasks, key=lambda each: (-amount(each), each.index))


def spread_of(numbers: Iterable[float]) -> Spread:
    """Return the spread of numbers of tasks: the least, median and most, and a histogram of equal bars."""
    values = sorted(numbers)
    low, high = values[0], values[-1]
    width = (high - low) / _BARS
    bars = [0] * (_BARS if width else 1)
    for value in values:
        bars[min(int((value - low) / width), _BARS - 1) if width else 0] += 1
    return Spread(min=round(low, 1), median=round(median(values), 1), max=round(high, 1), bars=bars)


def _input(seen: Observation, figures: WindowFigures, name: str, taken: Input, inputs: Sequence[Input]) -> InputStats:
    tuples = figures.transferred.get(Edge(taken.component, taken.stream, name))
    stats = InputStats(
        component=taken.component,
        encoded_component_id=encoded(taken.component),
        stream=taken.stream,
        grouping=taken.grouping,
        executed=None if tuples is None else int(tuples),
    )
    if tuples is None or len(inputs) > 1:
        return stats
    found = figures.component(name).amounts
    return structs.replace(
        stats,
        execute_latency=decimal(execute_latency_ms(found)),
        failed=int(found.get(Figure.FAILED, 0)),
        acked=acked_by_bolt(seen, found),
    )


def _outputs(seen: Observation, figures: WindowFigures, name: str) -> list[OutputStats]:
    by_stream: dict[str, list[Edge]] = {}
    for edge in figures.transferred:
        if edge.source == name:
            by_stream.setdefault(edge.stream, []).append(edge)
    return [
        OutputStats(
            stream=stream,
            emitted=_emitted(seen, figures, edges),
            transferred=int(sum(figures.transferred[edge] for edge in edges)),
            targets=[Target(target=edge.target, transferred=int(figures.transferred[edge])) for edge in edges],
        )
        for stream, edges in by_stream.items()
    ]


def _emitted(seen: Observation, figures: WindowFigures, edges: Sequence[Edge]) -> int | UnsetType:
    """Return the number of tuples of a stream, counted at a bolt that gets each once; UNSET if no bolt does."""
    for edge in edges:
        target = seen.component(edge.target)
        for taken in () if target is None else target.inputs:
            is_edge = (taken.component, taken.stream) == (edge.source, edge.stream)
            if is_edge and taken.grouping.partition("(")[0] in _ONCE:
                return int(figures.transferred[edge])
    return UNSET
