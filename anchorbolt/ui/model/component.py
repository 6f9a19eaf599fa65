"""One component with its tasks: page by page, and how they differ from each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.ui.model.observation import (
    ALL_WINDOWS,
    Latency,
    Observation,
    OneTask,
    WindowFigures,
    execute_latency_ms,
)
from anchorbolt.ui.model.text import decimal, encoded, pretty_window, storm_status
from anchorbolt.ui.model.topology import acked_by_bolt, amounts, complete_latency, errors, skew, times

Json = dict[str, Any]

SORTS: Mapping[str, Figure | None] = {
    "task": None,
    "executed": Figure.EXECUTED,
    "emitted": Figure.EMITTED,
    "failed": Figure.FAILED,
    "capacity": Figure.EXECUTE_MS,
    "keysStaged": Figure.KEYS_STAGED,
    "bytesStaged": Figure.BYTES_STAGED,
}
MOST_TASKS = 200
"""Of one answer."""

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


def component(seen: Observation, name: str, window: str, *, first: int, count: int, sort: str) -> Json | None:
    """Return the answer of `/api/v1/topology/{id}/component/{component}`; None if there is no such component.

    `executorStats` has at most `count` tasks from the `first` one on; those with most come first, unless `sort` is
    `task`. `spread` tells of all tasks.
    """
    described = seen.component(name)
    if described is None:
        return None
    figures = seen.window(window)
    found = figures.component(name)
    kind = "spout" if described["kind"] == "spout" else "bolt"
    seconds = max(figures.seconds, 1e-3)
    return {
        "id": name,
        "encodedId": encoded(name),
        "name": seen.topology,
        "topologyId": seen.topology,
        "encodedTopologyId": encoded(seen.topology),
        "topologyStatus": storm_status(seen.status),
        "componentType": kind,
        "type": described["type"],
        "window": window,
        "windowHint": pretty_window(window),
        "windowSeconds": round(figures.seconds, 3),
        "tasks": described["tasks"],
        "executors": described["tasks"],
        "spoutSummary" if kind == "spout" else "boltStats": [_stats(seen, name, each) for each in ALL_WINDOWS],
        "inputStats": [_input(seen, figures, name, each, described["inputs"]) for each in described["inputs"]],
        "outputStats": _outputs(seen, figures, name),
        "executorsTotal": len(found.tasks),
        "executorsFirst": first,
        "executorStats": [
            {
                **(_spout_task(each, seconds) if kind == "spout" else _task(each, seconds)),
                **(acked_by_bolt(seen, each.amounts) if kind == "bolt" else {}),
                **({"transferred": figures.transferred_from(name)} if len(found.tasks) == 1 else {}),
            }
            for each in _sorted(found.tasks, sort)[first : first + count]
        ],
        "skew": skew(found),
        "spread": {
            label: spread_of([each.amounts.get(figure, 0) for each in found.tasks])
            for label, figure in _SPREAD_FIGURES.items()
            if found.tasks
        },
        "componentErrors": _errors(seen, name),
    }


def _stats(seen: Observation, name: str, window: str) -> Json:
    figures = seen.window(window)
    found = figures.component(name)
    stats = {
        "window": window,
        "windowPretty": pretty_window(window),
        **amounts(found.amounts),
        "transferred": figures.transferred_from(name),
        "executeLatency": decimal(execute_latency_ms(found.amounts)),
        "capacity": decimal(found.capacity),
    }
    if messages := figures.messages.get(name):
        stats |= {"acked": int(messages["acked"]), "failed": int(messages["failed"])}
        stats |= complete_latency(figures, name)
    else:
        stats |= acked_by_bolt(seen, found.amounts)
    return stats


def _spout_task(task: OneTask, seconds: float) -> Json:
    """Return what a spout's task did, and what became of its messages. Only rich spouts have messages."""
    stats = {name: value for name, value in _task(task, seconds).items() if name != "failed"}
    if task.messages is None:
        return stats
    acked, failed, complete_ms, completed = task.messages
    latency = Latency(complete_ms, int(completed)).mean_ms
    return {**stats, "acked": int(acked), "failed": int(failed), "completeLatency": decimal(latency)}


def _task(task: OneTask, seconds: float) -> Json:
    executed = task.amounts.get(Figure.EXECUTED, 0)
    return {
        "id": str(task.index),
        "encodedId": str(task.index),
        **amounts(task.amounts),
        "executedPerSecond": round(executed / seconds, 2),
        "executeLatency": decimal(execute_latency_ms(task.amounts)),
        "capacity": decimal(task.capacity),
    }


def _sorted(tasks: Sequence[OneTask], sort: str) -> Sequence[OneTask]:
    figure = SORTS[sort]
    if figure is None:
        return sorted(tasks, key=lambda each: each.index)

    def amount(task: OneTask) -> float:
        if figure is Figure.FAILED and task.messages is not None:
            return task.messages.failed
        return task.amounts.get(figure, 0)

    return sorted(tasks, key=lambda each: (-amount(each), each.index))


def spread_of(numbers: Iterable[float]) -> Json:
    """Return how numbers of tasks are distributed: the least, median and most, and a histogram of equal bars."""
    values = sorted(numbers)
    low, high = values[0], values[-1]
    width = (high - low) / _BARS
    bars = [0] * (_BARS if width else 1)
    for value in values:
        bars[min(int((value - low) / width), _BARS - 1) if width else 0] += 1
    return {"min": round(low, 1), "median": round(median(values), 1), "max": round(high, 1), "bars": bars}


def _input(
    seen: Observation, figures: WindowFigures, name: str, taken: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]
) -> Json:
    """Return what a bolt did with a stream. Only the stream of a bolt that takes no other one has all figures."""
    tuples = figures.transferred.get(Edge(taken["component"], taken["stream"], name))
    stats = {
        "component": taken["component"],
        "encodedComponentId": encoded(taken["component"]),
        "stream": taken["stream"],
        "grouping": taken["grouping"],
        "executed": None if tuples is None else int(tuples),
    }
    if tuples is None or len(inputs) > 1:
        return stats
    found = figures.component(name).amounts
    stats |= {"executeLatency": decimal(execute_latency_ms(found)), "failed": int(found.get(Figure.FAILED, 0))}
    return stats | acked_by_bolt(seen, found)


def _outputs(seen: Observation, figures: WindowFigures, name: str) -> list[Json]:
    """Return what a component sent, by stream."""
    by_stream: dict[str, list[Edge]] = {}
    for edge in figures.transferred:
        if edge.source == name:
            by_stream.setdefault(edge.stream, []).append(edge)
    return [
        {
            "stream": stream,
            **_emitted(seen, figures, edges),
            "transferred": int(sum(figures.transferred[edge] for edge in edges)),
            "targets": [{"target": edge.target, "transferred": int(figures.transferred[edge])} for edge in edges],
        }
        for stream, edges in by_stream.items()
    ]


def _emitted(seen: Observation, figures: WindowFigures, edges: Sequence[Edge]) -> Json:
    """Return the number of tuples of a stream, counted at a bolt that gets each once; empty if no bolt does."""
    for edge in edges:
        for taken in (seen.component(edge.target) or {}).get("inputs", ()):
            is_edge = (taken["component"], taken["stream"]) == (edge.source, edge.stream)
            if is_edge and taken["grouping"].partition("(")[0] in _ONCE:
                return {"emitted": int(figures.transferred[edge])}
    return {}


def _errors(seen: Observation, name: str) -> list[Json]:
    return [{"error": each.text, **times(seen, each)} for each in errors(seen, name)]
