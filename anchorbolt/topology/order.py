"""The order of a graph's components. Pure; knows only ids."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter

from anchorbolt.errors import TopologyError


def topological_order(sources: Mapping[str, Collection[str]]) -> list[str]:
    """Return the ids so that each stands behind its sources and, as far as that allows, in the order of `sources`.

    Args:
        sources: For each component the ids that it takes streams from, all of them keys here.

    Raises:
        TopologyError: The components form a cycle.
    """
    sorter = TopologicalSorter(sources)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise TopologyError(
            f"the components form a cycle: {' -> '.join(cycle)}. Remove one of these groupings: a topology is a "
            "directed graph without cycles.",
            component=cycle[0],
        ) from None
    ids = list(sources)
    places = {id: place for place, id in enumerate(ids)}
    ready: list[int] = []
    order: list[str] = []
    while sorter.is_active():
        for id in sorter.get_ready():
            heapq.heappush(ready, places[id])
        id = ids[heapq.heappop(ready)]
        order.append(id)
        sorter.done(id)
    return order
