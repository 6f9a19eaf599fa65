"""The topology and its components, under the field names of Storm's REST API where Storm has them.

What the engine does not measure is left out, such as `processLatency`. What a history does not tell is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anchorbolt.engine.task.messages import ReportedError
from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.observe.figures.windows import ALL_TIME
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

Json = dict[str, Any]

DEFAULT_WINDOW = ALL_TIME


def summary(seen: Observation) -> Json:
    """Return the answer of `/api/v1/topology/summary`: the one topology of this process."""
    return {"topologies": [_head(seen)]}


def topology(seen: Observation, window: str, *, sys: bool = False) -> Json:
    """Return the answer of `/api/v1/topology/{id}`; with `sys`, ackers are among the bolts."""
    figures = seen.window(window)
    components = seen.graph["components"]
    return {
        **_head(seen),
        "msgTimeout": seen.message_timeout_s,
        "window": window,
        "windowHint": pretty_window(window),
        "windowSeconds": round(figures.seconds, 3),
        "topologyStats": [_topology_stats(seen, each) for each in ALL_WINDOWS],
        "spouts": [_spout(seen, figures, each) for each in components if each["kind"] == "spout"],
        "bolts": [
            _bolt(seen, figures, each)
            for each in components
            if each["kind"] == "bolt" or (sys and each["kind"] == "acker")
        ],
        "configuration": shown_configuration(seen.configuration),
        "generation": seen.generation,
        "recovery": None
        if seen.recovery is None
        else {"action": seen.recovery.action, "ms": round(seen.recovery.ms, 1)},
        "txid": seen.txid,
        "isLive": seen.is_live,
        "waves": figures.waves,
        "phasesMs": figures.phases_ms,
        "storeMs": figures.store_ms,
        "failure": seen.failure,
        "facts": seen.facts,
    }


def amounts(found: Amounts) -> Json:
    """Return what tasks did, by Storm's names and, behind these, ours."""
    return {
        "executed": _whole(found, Figure.EXECUTED),
        "emitted": _whole(found, Figure.EMITTED),
        "failed": _whole(found, Figure.FAILED),
        "errors": _whole(found, Figure.ERRORS),
        "executeMs": _ms(found, Figure.EXECUTE_MS),
        "prepareMs": _ms(found, Figure.PREPARE_MS),
        "stageMs": _ms(found, Figure.STAGE_MS),
        "sealMs": _ms(found, Figure.SEAL_MS),
        "bytesOut": _whole(found, Figure.BYTES_OUT),
        "keysRead": _whole(found, Figure.KEYS_READ),
        "keysCached": _whole(found, Figure.KEYS_CACHED),
        "keysStaged": _whole(found, Figure.KEYS_STAGED),
        "bytesStaged": _whole(found, Figure.BYTES_STAGED),
    }


def acked_by_bolt(seen: Observation, found: Amounts) -> Json:
    """Return how many tuples a bolt acked; empty in a topology that does not track its tuples."""
    return {"acked": _whole(found, Figure.ACKED)} if seen.is_tracked else {}


def complete_latency(figures: WindowFigures, spout: str) -> Json:
    """Return the mean time from the emit of a spout's message to its ack; empty if it is not measured."""
    return {"completeLatency": decimal(figures.complete_ms[spout].mean_ms)} if spout in figures.complete_ms else {}


def errors(seen: Observation, component: str) -> list[ReportedError]:
    """Return the latest error that the component reported, and the latest reason of a failed round that names it.

    The later one comes first.
    """
    reported = seen.reported_errors.get(component)
    found = [each for each in (reported, _failure(seen, component)) if each is not None]
    return sorted(found, key=lambda each: each.at, reverse=True)


def last_error(seen: Observation, component: str) -> Json:
    """Return the latest error of a component, under Storm's names."""
    for error in errors(seen, component):
        return {"lastError": error.text, **times(seen, error)}
    return {"lastError": "", "errorTime": None, "errorLapsedSecs": None}


def times(seen: Observation, error: ReportedError) -> Json:
    """Return when an error was reported, under Storm's names."""
    return {"errorTime": int(error.at), "errorLapsedSecs": max(0, int(seen.at - error.at))}


def _failure(seen: Observation, component: str) -> ReportedError | None:
    for record in reversed(seen.records):
        for text in record.get("failures", ()):
            if f"bolt '{component}'" in text or f"spout '{component}'" in text:
                return ReportedError(record["at"], text)
    return None


def _head(seen: Observation) -> Json:
    tasks = sum(each["tasks"] for each in seen.graph["components"])
    return {
        "id": seen.topology,
        "encodedId": encoded(seen.topology),
        "name": seen.topology,
        "status": storm_status(seen.status),
        "uptime": pretty_seconds(seen.uptime_s),
        "uptimeSeconds": int(seen.uptime_s),
        "tasksTotal": tasks,
        "executorsTotal": tasks,
    }


def _topology_stats(seen: Observation, window: str) -> Json:
    figures = seen.window(window)
    components = {each["id"] for each in seen.graph["components"] if each["kind"] != "acker"}
    all_spouts = figures.complete_ms.values()
    complete = Latency(sum(each.total_ms for each in all_spouts), sum(each.count for each in all_spouts))
    return {
        "window": window,
        "windowPretty": pretty_window(window),
        "emitted": sum(
            int(each.amounts.get(Figure.EMITTED, 0)) for name, each in figures.components.items() if name in components
        ),
        "transferred": int(sum(figures.transferred.values())) if figures.transferred else None,
        "acked": int(sum(each["acked"] for each in figures.messages.values())),
        "failed": int(sum(each["failed"] for each in figures.messages.values())),
        "deadLetters": int(sum(each["dead_letters"] for each in figures.messages.values())),
        **({"completeLatency": decimal(complete.mean_ms)} if figures.complete_ms else {}),
    }


def _spout(seen: Observation, figures: WindowFigures, component: Mapping[str, Any]) -> Json:
    name = component["id"]
    messages = figures.messages.get(name, {})
    return {
        "spoutId": name,
        "encodedSpoutId": encoded(name),
        **_component(seen, figures, component),
        "acked": _messages(messages, "acked"),
        "failed": _messages(messages, "failed"),
        "deadLetters": _messages(messages, "dead_letters"),
        **complete_latency(figures, name),
    }


def _bolt(seen: Observation, figures: WindowFigures, component: Mapping[str, Any]) -> Json:
    name = component["id"]
    found = figures.component(name)
    return {
        "boltId": name,
        "encodedBoltId": encoded(name),
        **_component(seen, figures, component),
        "capacity": decimal(found.capacity),
        "executeLatency": decimal(execute_latency_ms(found.amounts)),
        "stateful": component.get("stateful", False),
        **acked_by_bolt(seen, found.amounts),
    }


def _component(seen: Observation, figures: WindowFigures, component: Mapping[str, Any]) -> Json:
    name = component["id"]
    found = figures.component(name)
    return {
        "tasks": component["tasks"],
        "executors": component["tasks"],
        "type": component["type"],
        **amounts(found.amounts),
        "transferred": figures.transferred_from(name),
        "skew": skew(found),
        **last_error(seen, name),
    }


def skew(found: ComponentFigures) -> float | None:
    """Return how many times the busiest task's tuples exceed the mean of all tasks; None without figures of tasks."""
    executed = [each.amounts.get(Figure.EXECUTED, 0) for each in found.tasks]
    total = sum(executed)
    return round(max(executed) * len(executed) / total, 2) if total else None


def _whole(found: Amounts, figure: Figure) -> int | None:
    return int(found[figure]) if figure in found else None


def _ms(found: Amounts, figure: Figure) -> float | None:
    return round(found[figure], 1) if figure in found else None


def _messages(of_spout: Mapping[str, float], what: str) -> int | None:
    return int(of_spout[what]) if what in of_spout else None


"""As in Storm."""


def graph(seen: Observation, window: str) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/graph`: components by level, and the streams between them.

    `perSecond` is null where only a history is known, which does not count streams.
    """
    figures = seen.window(window)
    seconds = max(figures.seconds, 1e-3)
    components, edges = [], []
    for each in seen.graph["components"]:
        found = figures.component(each["id"])
        executed, emitted = found.amounts.get(Figure.EXECUTED, 0), found.amounts.get(Figure.EMITTED, 0)
        components.append(
            {
                **each,
                "executed": int(executed),
                "emitted": int(emitted),
                "executedPerSecond": round(executed / seconds, 2),
                "emittedPerSecond": round(emitted / seconds, 2),
                "capacity": None if found.capacity is None else round(found.capacity, 3),
            }
        )
        for taken in each["inputs"]:
            edge = Edge(taken["component"], taken["stream"], each["id"])
            tuples = figures.transferred.get(edge)
            edges.append(
                {
                    "source": edge.source,
                    "stream": edge.stream,
                    "target": edge.target,
                    "grouping": taken["grouping"],
                    "transferred": None if tuples is None else int(tuples),
                    "perSecond": None if tuples is None else round(tuples / seconds, 2),
                }
            )
    return {"window": window, "windowSeconds": round(figures.seconds, 3), "components": components, "edges": edges}
