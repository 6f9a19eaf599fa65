"""The topological order of component ids. Pure."""

import heapq
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter

from anchorbolt.errors import TopologyError


def topological_order(sources: Mapping[str, Collection[str]]) -> list[str]:
    """Return the ids, each behind all its sources and otherwise in the order of the keys of `sources`.

    Raises `TopologyError` if the components form a cycle.
    """
    sorter = TopologicalSorter(sources)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise TopologyError(
            f"the components form a cycle: {' -> '.join(cycle)}. Remove one of these groupings: a topology has no "
            "cycles.",
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
