"""The graph of a topology as a JSON object: kept with the start of each driver, so that a page can draw it later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.topology.graph import BoltSpec, Component

Graph = Mapping[str, Any]
"""It has `topology`, and `components`: a list of objects, in topological order."""


def graph_of(plan: ExecutionPlan) -> Graph:
    """Return the graph that a plan runs. Ackers come last, as a component of the kind `acker`."""
    levels = {component: number for number, level in enumerate(plan.graph.levels) for component in level}
    components = [_component(plan, spec, levels[name]) for name, spec in plan.graph.components.items()]
    if plan.wiring.ackers:
        last = max(levels.values()) + 1
        components.append(
            {
                "id": ACKER_ID,
                "kind": "acker",
                "type": "",
                "level": last,
                "tasks": len(plan.wiring.tasks[ACKER_ID]),
                "inputs": [],
            }
        )
    return {"topology": plan.topology, "components": components}


def _component(plan: ExecutionPlan, spec: Component, level: int) -> dict[str, Any]:
    # A stream spout has as many tasks as its batch has partitions: they count as one.
    described: dict[str, Any] = {"id": spec.id, "level": level, "tasks": len(plan.wiring.tasks.get(spec.id, [spec.id]))}
    if isinstance(spec, BoltSpec):
        described |= {
            "kind": "bolt",
            "type": type(spec.bolt).__name__,
            "stateful": spec.is_stateful,
            "sink": spec.is_sink,
            "committer": spec.is_committer,
        }
        inputs = [
            {"component": each.source.component, "stream": each.source.stream, "grouping": str(each.grouping)}
            for each in spec.inputs
        ]
    else:
        described |= {"kind": "spout", "type": type(spec.spout).__name__}
        inputs = []
    return {**described, "inputs": inputs}
