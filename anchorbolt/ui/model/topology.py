"""The topology and its components, under the field names of Storm's REST API where Storm has them.

Values that the engine does not measure, such as `processLatency`, are left out. Values missing in a history are None.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, structs

from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.task.messages import ReportedError
from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.observe.figures.windows import ALL_TIME
from anchorbolt.observe.history.records import GraphComponent, Wave
from anchorbolt.ui.answers import Bolt, DrawnComponent, DrawnEdge, DrawnGraph, Head, Spout, Summary, Topology, Worker
from anchorbolt.ui.answers import TopologyStats as Stats
from anchorbolt.ui.model.configuration import shown_configuration
from anchorbolt.ui.model.observation import (
    ALL_WINDOWS,
    Amounts,
    ComponentFigures,
    Latency,
    Observation,
    WindowFigures,
    execute_latency_ms,
)
from anchorbolt.ui.model.text import decimal, encoded, pretty_seconds, pretty_window, storm_status

DEFAULT_WINDOW = ALL_TIME
"""As in Storm."""

_SHOWN = {figure: figure.name.lower() for figure in Figure if figure is not Figure.ACKED}


def summary(seen: Observation) -> Summary:
    """Return the answer of `/api/v1/topology/summary`: the one topology of this process."""
    return Summary(topologies=[Head(**_head(seen))])


def topology(seen: Observation, window: str, *, sys: bool = False) -> Topology:
    """Return the answer of `/api/v1/topology/{id}`; with `sys`, ackers are among the bolts."""
    figures = seen.window(window)
    bolts = ("bolt", "acker") if sys else ("bolt",)
    return Topology(
        **_head(seen),
        msg_timeout=seen.message_timeout_s,
        window=window,
        window_hint=pretty_window(window),
        window_seconds=round(figures.seconds, 3),
        topology_stats=[_topology_stats(seen, each) for each in ALL_WINDOWS],
        spouts=[_spout(seen, figures, each) for each in seen.graph.components if each.kind == "spout"],
        bolts=[_bolt(seen, figures, each) for each in seen.graph.components if each.kind in bolts],
        workers=[_worker(seen, each) for each in seen.workers],
        configuration=shown_configuration(seen.configuration),
        generation=seen.generation,
        recovery=seen.recovery,
        txid=seen.txid,
        is_live=seen.is_live,
        waves=figures.waves,
        phases_ms=figures.phases_ms,
        store_ms=figures.store_ms,
        failure=seen.failure,
        facts=seen.facts,
    )


def amounts(found: Amounts) -> dict[str, Any]:
    """Return the figures of tasks as the fields of `answers.Amounts`."""
    return {
        name: None if figure not in found else round(found[figure], 1) if name.endswith("_ms") else int(found[figure])
        for figure, name in _SHOWN.items()
    }


def acked_by_bolt(seen: Observation, found: Amounts) -> int | UnsetType:
    """Return the number of tuples that a bolt acked; UNSET if the topology does not track tuples."""
    return int(found[Figure.ACKED]) if seen.is_tracked else UNSET


def complete_latency(figures: WindowFigures, spout: str) -> str | UnsetType:
    """Return the mean time from the emit of a spout's message to its ack; UNSET if it is not measured."""
    return decimal(figures.complete_ms[spout].mean_ms) if spout in figures.complete_ms else UNSET


def errors(seen: Observation, component: str) -> list[ReportedError]:
    """Return the latest error that the component reported, and the latest reason of a failed round that names it.

    The later one comes first.
    """
    reported = seen.reported_errors.get(component)
    found = [each for each in (reported, _failure(seen, component)) if each is not None]
    return sorted(found, key=lambda each: each.at, reverse=True)


def lapsed_secs(seen: Observation, error: ReportedError) -> int:
    """Return the seconds since an error was reported."""
    return max(0, int(seen.at - error.at))


def _failure(seen: Observation, component: str) -> ReportedError | None:
    for record in reversed(seen.records):
        for text in record.failures if isinstance(record, Wave) else ():
            if f"bolt '{component}'" in text or f"spout '{component}'" in text:
                return ReportedError(record.at, text)
    return None


def _head(seen: Observation) -> dict[str, Any]:
    tasks = sum(each.tasks for each in seen.graph.components)
    return {
        "id": seen.topology,
        "encoded_id": encoded(seen.topology),
        "name": seen.topology,
        "status": storm_status(seen.status),
        "uptime": pretty_seconds(seen.uptime_s),
        "uptime_seconds": int(seen.uptime_s),
        "tasks_total": tasks,
        "executors_total": tasks,
        "workers_total": len(seen.workers),
    }


def _worker(seen: Observation, worker: WorkerFigures) -> Worker:
    uptime_s = max(0.0, seen.at - worker.since)
    return Worker(
        slot=worker.slot,
        host=worker.host,
        pid=worker.pid,
        uptime=pretty_seconds(uptime_s),
        uptime_seconds=int(uptime_s),
        executors_total=worker.tasks,
        buffered_bytes=worker.buffered_bytes,
        spilled_bytes=worker.spilled_bytes,
        cached_entries=worker.cached_entries,
        sent_bytes=sum(worker.sent_bytes.values()),
        sent_bytes_to={str(to): size for to, size in worker.sent_bytes.items()},
    )


def _topology_stats(seen: Observation, window: str) -> Stats:
    figures = seen.window(window)
    ackers = {each.id for each in seen.graph.components if each.kind == "acker"}
    all_spouts = figures.complete_ms.values()
    complete = Latency(sum(each.total_ms for each in all_spouts), sum(each.count for each in all_spouts))
    emitted = (each.amounts.get(Figure.EMITTED, 0) for name, each in figures.components.items() if name not in ackers)
    return Stats(
        window=window,
        window_pretty=pretty_window(window),
        emitted=sum(map(int, emitted)),
        transferred=int(sum(figures.transferred.values())) if figures.transferred else None,
        acked=int(sum(each["acked"] for each in figures.messages.values())),
        failed=int(sum(each["failed"] for each in figures.messages.values())),
        dead_letters=int(sum(each["dead_letters"] for each in figures.messages.values())),
        complete_latency=decimal(complete.mean_ms) if figures.complete_ms else UNSET,
    )


def _spout(seen: Observation, figures: WindowFigures, component: GraphComponent) -> Spout:
    messages = figures.messages.get(component.id, {})
    told = {name: int(messages[name]) if name in messages else None for name in ("acked", "failed", "dead_letters")}
    return Spout(
        **{**_component(seen, figures, component), **told},
        spout_id=component.id,
        encoded_spout_id=encoded(component.id),
        complete_latency=complete_latency(figures, component.id),
    )


def _bolt(seen: Observation, figures: WindowFigures, component: GraphComponent) -> Bolt:
    found = figures.component(component.id)
    return Bolt(
        **_component(seen, figures, component),
        bolt_id=component.id,
        encoded_bolt_id=encoded(component.id),
        capacity=decimal(found.capacity),
        execute_latency=decimal(execute_latency_ms(found.amounts)),
        stateful=component.stateful is True,
        acked=acked_by_bolt(seen, found.amounts),
    )


def _component(seen: Observation, figures: WindowFigures, component: GraphComponent) -> dict[str, Any]:
    """Return the fields of `answers.ShownComponent`."""
    found = figures.component(component.id)
    error = next(iter(errors(seen, component.id)), None)
    return {
        "tasks": component.tasks,
        "executors": component.tasks,
        "type": component.type,
        **amounts(found.amounts),
        "transferred": figures.transferred_from(component.id),
        "skew": skew(found),
        "last_error": "" if error is None else error.text,
        "error_time": None if error is None else int(error.at),
        "error_lapsed_secs": None if error is None else lapsed_secs(seen, error),
    }


def skew(found: ComponentFigures) -> float | None:
    """Return the busiest task's tuples, divided by the mean of all tasks; None without figures of tasks."""
    executed = [each.amounts.get(Figure.EXECUTED, 0) for each in found.tasks]
    total = sum(executed)
    return round(max(executed) * len(executed) / total, 2) if total else None


def graph(seen: Observation, window: str) -> DrawnGraph:
    """Return the answer of `/api/v1/topology/{id}/graph`: components by level, and the streams between them.

    `perSecond` is null for a history, which does not count streams.
    """
    figures = seen.window(window)
    seconds = max(figures.seconds, 1e-3)
    components, edges = [], []
    for each in seen.graph.components:
        found = figures.component(each.id)
        executed, emitted = found.amounts.get(Figure.EXECUTED, 0), found.amounts.get(Figure.EMITTED, 0)
        components.append(
            DrawnComponent(
                **structs.asdict(each),
                executed=int(executed),
                emitted=int(emitted),
                executed_per_second=round(executed / seconds, 2),
                emitted_per_second=round(emitted / seconds, 2),
                capacity=None if found.capacity is None else round(found.capacity, 3),
            )
        )
        for taken in each.inputs:
            tuples = figures.transferred.get(Edge(taken.component, taken.stream, each.id))
            edges.append(
                DrawnEdge(
                    source=taken.component,
                    stream=taken.stream,
                    target=each.id,
                    grouping=taken.grouping,
                    transferred=None if tuples is None else int(tuples),
                    per_second=None if tuples is None else round(tuples / seconds, 2),
                )
            )
    return DrawnGraph(window=window, window_seconds=round(figures.seconds, 3), components=components, edges=edges)
