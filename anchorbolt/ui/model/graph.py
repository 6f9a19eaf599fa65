"""The graph with what flows through it."""

from __future__ import annotations

from typing import Any

from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.ui.model.observation import Observation


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
