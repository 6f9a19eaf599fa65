"""`JoinBolt` against a join by definition, and what it refuses."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.errors import TopologyError
from anchorbolt.streams.tuple import StreamHeader, Tuple
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.windows import JoinBolt

DEADLINE_S = 30

People = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


class Emitted(list[Any]):
    def emit(self, values: Any, *, anchors: Any, stream: str) -> None:
        self.append(values)


class Lists:
    """A window over a list of tuples."""

    def __init__(self, tuples: list[Tuple]) -> None:
        self.tuples = tuples

    def get(self) -> list[Tuple]:
        return self.tuples


def tuples(component: str, fields: tuple[str, ...], rows: Any) -> list[Tuple]:
    header = StreamHeader(component, 0, "default", fields)
    return [Tuple(row, header) for row in rows]


def joined(bolt: JoinBolt, window: list[Tuple]) -> list[Any]:
    emitted = Emitted()
    bolt.prepare({}, None, emitted)  # type: ignore[arg-type]
    bolt.execute(Lists(window))  # type: ignore[arg-type]
    return emitted


@settings(max_examples=200, deadline=None)
@given(a=People, b=People, c=People, order=st.randoms(), lefts=st.tuples(st.booleans(), st.booleans()))
def test_a_join_equals_its_definition(a: Any, b: Any, c: Any, order: Any, lefts: tuple[bool, bool]) -> None:
    window = [*tuples("a", ("id", "x"), a), *tuples("b", ("aid", "y"), b), *tuples("c", ("yid", "z"), c)]
    order.shuffle(window)
    bolt = JoinBolt("a", "id")
    bolt = bolt.left_join("b", "aid", "a") if lefts[0] else bolt.join("b", "aid", "a")
    bolt = bolt.left_join("c", "yid", "b") if lefts[1] else bolt.join("c", "yid", "b")
    bolt.select("id, x,b:y , c:z")
    expected: list[Any] = []
    for id, x in a:
        of_b: list[Any] = [row for row in b if row[0] == id] or ([(None, None)] if lefts[0] else [])
        for aid, y in of_b:
            of_c: list[Any] = [row for row in c if aid is not None and row[0] == aid]
            expected += [(id, x, y, z) for _, z in of_c or ([(None, None)] if lefts[1] else [])]
    assert sorted(joined(bolt, window), key=repr) == sorted(expected, key=repr)


def test_inner_values_of_dicts_and_lists_as_keys() -> None:
    window = [
        *tuples("a", ("who",), [({"id": [1]},), ({"id": [2]},), ({},), (None,)]),
        *tuples("b", ("id", "what"), [([1], {"is": {"in": 5}})]),
    ]
    bolt = JoinBolt("a", "who.id").left_join("b", "id", "a").select("who.id,b:what.is.in")
    assert joined(bolt, window) == [([1], 5), ([2], None), (None, None), (None, None)]


def test_lists_and_dicts_join_if_they_are_equal() -> None:
    window = [
        *tuples("a", ("id", "n"), [([1], 1), ({"x": 1, "y": [2]}, 2), ({3}, 3), ("[1]", 4), ((1,), 5)]),
        *tuples("b", ("id", "m"), [([1.0], 1), ({"y": [2], "x": 1}, 2), ({3}, 3)]),
    ]
    bolt = JoinBolt("a", "id").join("b", "id", "a").select("n,m")
    assert joined(bolt, window) == [(1, 1), (2, 2), (3, 3)]


class Split(BaseBasicBolt):
    """Emits even numbers to one stream and their halves to another one."""

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["n"], "left"), stream="left")
        collector.emit((2 * tup["n"], "right"), stream="right")

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare_stream("left", "n", "side")
        declarer.declare_stream("right", "n", "side")


def test_streams_of_one_component_join_by_their_names_to_a_stream_of_their_own() -> None:
    captured = TupleCapture()
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["n"], [[(1,), (2,)], [(3,), (4,)]]))
    builder.set_bolt("split", Split()).shuffle_grouping("in")
    bolt = JoinBolt("left", "n", by="stream").join("right", "n", "left").select("n,left:side,right:side")
    taken = builder.set_bolt("join", bolt.with_output_stream("joined").with_tumbling_window(count=8), 1)
    taken.fields_grouping("split", "n", stream="left").fields_grouping("split", "n", stream="right")
    builder.set_bolt("out", captured).global_grouping("join", stream="joined")
    LocalCluster(clock=ManualClock()).submit(builder.create_topology("join")).await_termination(DEADLINE_S)
    assert captured.tuples == [(2, "left", "right"), (4, "left", "right")]


def topology(bolt: JoinBolt) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("genders", FeederSpout(["id", "gender"]))
    builder.set_spout("ages", FeederSpout(["id", "age"]))
    builder.set_bolt("join", bolt).fields_grouping("genders", "id").fields_grouping("ages", "id")
    return builder.create_topology("join")


def of(source: str = "genders", field: str = "id") -> JoinBolt:
    return JoinBolt(source, field).with_tumbling_window(count=2)


@pytest.mark.parametrize(
    ("bolt", "named"),
    [
        (lambda: of().join("ages", "id", "genders"), "select"),
        (lambda: JoinBolt("genders", "id").join("ages", "id", "genders").select("id"), "with_window"),
        (lambda: of("gender").join("ages", "id", "gender").select("id"), "Did you mean 'genders'"),
        (lambda: of().select("id"), "'ages'"),
        (lambda: of().join("ages", "number", "genders").select("id"), "'number'"),
        (lambda: of().join("ages", "id", "genders").select("id,ages:gender"), "'gender' of component 'ages'"),
        (lambda: of().join("ages", "id", "genders").select("id,agas:age"), "Did you mean 'ages'"),
        (lambda: of().join("ages", "id", "genders").select("id,agee"), "Did you mean 'age'"),
        (lambda: of().join("ages", "id", "ages"), "'ages'"),
        (lambda: of().join("genders", "id", "genders"), "once"),
        (lambda: of().join("ages", "genders:id", "genders"), "'genders:id'"),
        (lambda: of().select("id,,age"), "''"),
        (lambda: of().select(["id"]), "one text"),  # type: ignore[arg-type]
        (lambda: JoinBolt("genders", "id", by="field"), "'stream'"),
        (lambda: JoinBolt("genders", 5), "5"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_join_is_refused_when_the_topology_is_built(bolt: Any, named: str) -> None:
    with pytest.raises(TopologyError) as caught:
        topology(bolt())
    assert named in caught.value.message


def test_a_right_join_is_not_refused() -> None:
    topology(of().join("ages", "id", "genders").select("id,gender,ages:age"))
