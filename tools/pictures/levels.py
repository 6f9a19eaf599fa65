"""The picture of a topology's levels: drawn from `Topology.levels` of a small topology with a join."""

from typing import Any

from svg import Drawing

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import Topology, TopologyBuilder

_WIDTH, _HEIGHT, _GAP, _FRAME, _TOP = 140, 72, 84, 12, 60


class Join(BaseBasicBolt):
    """Stands in for each bolt: only the graph is drawn."""

    def execute(self, tup: Any, collector: Any) -> None:
        """Do nothing."""

    def declare_output_fields(self, declarer: Any) -> None:
        """Declare the field that the next bolt groups by."""
        declarer.declare("article")


def example() -> Topology:
    """Return a topology in which one stream skips a level."""
    builder = TopologyBuilder()
    builder.set_spout("orders", GeneratorSpout(["article"], _nothing, count=0), parallelism=2)
    builder.set_spout("prices", GeneratorSpout(["article"], _nothing, count=0), parallelism=1)
    builder.set_bolt("parse", Join(), parallelism=3).shuffle_grouping("orders")
    join = builder.set_bolt("join", Join(), parallelism=2)
    join.fields_grouping("parse", "article").fields_grouping("prices", "article")
    builder.set_bolt("out", Join(), parallelism=1).global_grouping("join")
    return builder.create_topology("orders-with-prices")


def _nothing(number: int) -> tuple[int]:
    return (number,)


def drawing() -> Drawing:
    """Draw each level as a frame, with its components and their tasks."""
    topology = example()
    rows = max(map(len, topology.levels))
    bottom = _TOP + rows * (_HEIGHT + 24)
    width = 2 * _FRAME + len(topology.levels) * (_WIDTH + _GAP) - _GAP + 2 * _FRAME
    picture = Drawing(width, bottom + 34, title=f"The levels of a topology: {', '.join(topology.components)}")
    places = {}
    for level, ids in enumerate(topology.levels):
        x = 2 * _FRAME + level * (_WIDTH + _GAP)
        picture.box(x - _FRAME, _TOP - 16, _WIDTH + 2 * _FRAME, bottom - _TOP + 12)
        picture.text(x + _WIDTH / 2, _TOP - 30, f"level {level}" if level else "level 0", kind="strong")
        picture.text(x + _WIDTH / 2, bottom + 18, "one Spark stage" if level else "driver or source", kind="muted")
        if level:
            picture.text(x - _GAP / 2, _TOP - 30, "shuffle", kind="muted")
        for row, id in enumerate(ids):
            places[id] = x, _TOP + row * (_HEIGHT + 24)
    for id, (x, y) in places.items():
        tasks = topology.components[id].parallelism or 1
        picture.box(x, y, _WIDTH, _HEIGHT, kind="green" if id in topology.spouts else "blue")
        picture.text(x + _WIDTH / 2, y + 24, id, kind="strong")
        for task in range(tasks):
            picture.circle(x + _WIDTH / 2 + 22 * (task - (tasks - 1) / 2), y + 42, 7)
        picture.text(x + _WIDTH / 2, y + 64, "1 task" if tasks == 1 else f"{tasks} tasks", kind="muted small")
    for id, bolt in topology.bolts.items():
        for number, source in enumerate(bolt.sources):
            (x, y), (to_x, to_y) = places[source], places[id]
            start, end = y + _HEIGHT / 2, to_y + _HEIGHT / 2 + 16 * number
            bend = to_x - _GAP
            picture.line([(x + _WIDTH, start), (max(x + _WIDTH, bend), start), (to_x, end)], arrow=True)
    return picture
