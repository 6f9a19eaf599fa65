"""What a topology is refused for: each message names the culprit and what to do."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.bolts.base import BaseRichBolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.groupings import CustomStreamGrouping
from anchorbolt.topology import TopologyBuilder
from tests.topology.test_topology_builder import Count, Evenly, Sink, Split


@pytest.fixture
def builder() -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("sentences", FeederSpout(["sentence"]))
    builder.set_bolt("split", Split()).shuffle_grouping("sentences")
    builder.set_bolt("count", Count()).fields_grouping("split", "word")
    return builder


def refused(action: Callable[[], object], component: str | None, *parts: str) -> None:
    with pytest.raises(TopologyError) as caught:
        action()
    assert caught.value.component == component
    for part in parts:
        assert part in caught.value.message
    assert caught.value.message.rstrip().endswith((".", "?"))


def test_unknown_component(builder: TopologyBuilder) -> None:
    builder.set_bolt("out", Sink()).shuffle_grouping("coutn")
    refused(
        lambda: builder.create_topology("t"),
        "out",
        "bolt 'out' takes stream 'default' of 'coutn'",
        "Did you mean 'count'?",
        "sentences, split, count, out",
    )


def test_unknown_stream(builder: TopologyBuilder) -> None:
    builder.set_bolt("out", Sink()).shuffle_grouping("count", "lates")
    refused(
        lambda: builder.create_topology("t"),
        "out",
        "stream 'lates' of 'count', which does not declare it",
        "Did you mean 'late'?",
        "default, late, to-task",
    )


def test_stream_of_a_bolt_that_declares_none(builder: TopologyBuilder) -> None:
    builder.set_bolt("out", Sink()).shuffle_grouping("count")
    builder.set_bolt("after", Sink()).shuffle_grouping("out")
    refused(
        lambda: builder.create_topology("t"), "after", "of 'out'", "declares none", "declare_output_fields"
    )


@pytest.mark.parametrize("method", ["fields_grouping", "partial_key_grouping"])
def test_grouping_on_an_undeclared_field(builder: TopologyBuilder, method: str) -> None:
    getattr(builder.set_bolt("out", Sink()), method)("count", "word", "cuont")
    refused(
        lambda: builder.create_topology("t"),
        "out",
        "stream 'default' of 'count' by field 'cuont'",
        "Did you mean 'count'?",
        "word, count",
    )


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ((), ("names no field", "fields_grouping('count', 'word')")),
        ((["word"],), ("['word']", "string of its own")),
        (("word", "word"), ("'word' twice",)),
    ],
)
def test_fields_that_are_no_list_of_names(
    builder: TopologyBuilder, fields: Any, parts: tuple[str, ...]
) -> None:
    declarer = builder.set_bolt("out", Sink())
    refused(lambda: declarer.fields_grouping("count", *fields), "out", *parts)
    assert declarer.inputs == ()


def test_duplicate_id(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("split", Sink()), "split", "set already, as a bolt")
    refused(lambda: builder.set_bolt("sentences", Sink()), "sentences", "set already, as a spout")
    refused(lambda: builder.set_spout("split", FeederSpout(["a"])), "split", "set already, as a bolt")


@pytest.mark.parametrize("id", ["$checkpointspout", "__acker", "__system"])
def test_reserved_id(builder: TopologyBuilder, id: str) -> None:
    refused(lambda: builder.set_bolt(id, Sink()), id, "reserved", "Choose another")
    refused(lambda: builder.set_spout(id, FeederSpout(["a"])), id, "reserved")
    refused(lambda: builder.create_topology(id), id, "reserved")
    refused(lambda: builder.set_bolt("out", Sink()).shuffle_grouping(id), id, "reserved")


@pytest.mark.parametrize("id", ["", ".hidden", "a b", "a:b", "x" * 129, "ü", None, 7, "a\n"])
def test_invalid_id(builder: TopologyBuilder, id: Any) -> None:
    refused(
        lambda: builder.set_bolt(id, Sink()),
        id if isinstance(id, str) else None,
        repr(id),
        "not a valid name",
    )
    refused(lambda: builder.create_topology(id), id if isinstance(id, str) else None, "not a valid name")


def test_cycle_is_named_in_the_direction_of_the_data() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["word"]))
    builder.set_bolt("a", Split()).shuffle_grouping("spout").shuffle_grouping("c")
    builder.set_bolt("b", Split()).shuffle_grouping("a")
    builder.set_bolt("c", Split()).shuffle_grouping("b")
    with pytest.raises(TopologyError) as caught:
        builder.create_topology("t")
    assert any(
        cycle in caught.value.message
        for cycle in ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")
    )


def test_bolt_that_takes_its_own_stream() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["word"]))
    builder.set_bolt("a", Split()).shuffle_grouping("spout").shuffle_grouping("a")
    refused(lambda: builder.create_topology("t"), "a", "a -> a")


def test_no_spout() -> None:
    builder = TopologyBuilder()
    refused(lambda: builder.create_topology("t"), None, "no spout", "set_spout")
    builder.set_bolt("a", Split()).shuffle_grouping("b")
    refused(lambda: builder.create_topology("t"), None, "no spout")


def test_no_bolt() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["word"]))
    refused(lambda: builder.create_topology("t"), None, "no bolt", "set_bolt")


def test_bolt_without_inputs(builder: TopologyBuilder) -> None:
    builder.set_bolt("lonely", Sink())
    refused(
        lambda: builder.create_topology("t"), "lonely", "bolt 'lonely' takes no stream", ".shuffle_grouping("
    )


def test_stream_taken_twice(builder: TopologyBuilder) -> None:
    declarer = builder.set_bolt("out", Sink()).shuffle_grouping("count").shuffle_grouping("count", "late")
    refused(
        lambda: declarer.shuffle_grouping("count"), "out", "'default' of 'count' is taken by shuffle already"
    )
    refused(lambda: declarer.fields_grouping("count", "word"), "out", "by shuffle already", "fields(word)")


@pytest.mark.parametrize("parallelism", [0, -1, True, False, 1.0, "2"])
def test_parallelism_that_is_no_number_of_tasks(builder: TopologyBuilder, parallelism: Any) -> None:
    refused(lambda: builder.set_bolt("out", Sink(), parallelism), "out", repr(parallelism), "at least 1")
    refused(
        lambda: builder.set_spout("in", FeederSpout(["a"]), parallelism),
        "in",
        repr(parallelism),
        "at least 1",
    )


def test_bolt_without_parallelism(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("out", Sink(), None), "out", "None", "at least 1")  # type: ignore[arg-type]


def test_class_in_place_of_an_instance(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("out", Sink), "out", "Pass Sink(), not Sink.")  # type: ignore[arg-type]
    refused(lambda: builder.set_spout("in", FeederSpout), "in", "FeederSpout(), not")  # type: ignore[arg-type]
    declarer = builder.set_bolt("custom", Sink())
    refused(lambda: declarer.custom_grouping("count", Evenly), "custom", "Evenly(), not")  # type: ignore[arg-type]


def test_object_that_is_neither_spout_nor_bolt(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("out", print), "out", "builtin_function", "is no bolt")  # type: ignore[arg-type]
    refused(lambda: builder.set_spout("in", "text"), "in", "'text', of type str, is no spout")  # type: ignore[arg-type]
    declarer = builder.set_bolt("custom", Sink())
    refused(lambda: declarer.custom_grouping("count", len), "custom", "CustomStreamGrouping")  # type: ignore[arg-type]


def test_spout_and_bolt_mixed_up(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("out", FeederSpout(["a"])), "out", "Add it with set_spout")  # type: ignore[arg-type]
    refused(lambda: builder.set_spout("in", Sink()), "in", "Add it with set_bolt")  # type: ignore[arg-type]


def test_direct_grouping_on_a_stream_that_is_not_direct(builder: TopologyBuilder) -> None:
    builder.set_bolt("out", Sink()).direct_grouping("count")
    refused(
        lambda: builder.create_topology("t"), "out", "'default' of 'count' by direct grouping", "direct=True"
    )


def test_direct_stream_taken_by_another_grouping(builder: TopologyBuilder) -> None:
    builder.set_bolt("out", Sink()).fields_grouping("count", "word", stream="to-task")
    refused(
        lambda: builder.create_topology("t"),
        "out",
        "direct stream 'to-task' of 'count' by fields(word)",
        "direct_grouping",
    )


def test_refused_component_is_not_added(builder: TopologyBuilder) -> None:
    with pytest.raises(TopologyError):
        builder.set_bolt("out", Sink(), 0)
    builder.set_bolt("out", Sink()).shuffle_grouping("count")
    assert "out" in builder.create_topology("t").bolts


def test_declaration_that_raises_is_told_with_its_cause() -> None:
    class Broken(Spout):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            raise KeyError("conf")

    with pytest.raises(TopologyError) as caught:
        TopologyBuilder().set_spout("broken", Broken())
    assert "'broken'" in caught.value.message
    assert "KeyError: 'conf'" in caught.value.message
    assert isinstance(caught.value.__cause__, KeyError)


class Holder(BaseRichBolt):
    """A bolt, module-level and so pickled by reference, that holds what it is given."""

    def __init__(self, held: Any) -> None:
        self.name = "fine"
        self.held = held

    def execute(self, tup: Any) -> None:
        raise NotImplementedError


class Helper:
    def __init__(self, lock: Any) -> None:
        self.size = 3
        self.lock = lock


class Slotted:
    __slots__ = ("lock",)

    def __init__(self, lock: Any) -> None:
        self.lock = lock


class Loop:
    def __init__(self, lock: Any) -> None:
        self.me = self
        self.lock = lock


class Choosy:
    def __init__(self, lock: Any) -> None:
        self.dropped = lock
        self.kept = [lock]

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}


class Stubborn:
    def __reduce__(self) -> Any:
        raise RuntimeError("not me\nand more")


LOCK = threading.Lock()


def closure_over(value: Any) -> Callable[[], Any]:
    return lambda: value


@pytest.mark.parametrize(
    ("held", "path"),
    [
        (LOCK, "count.held,"),
        (Helper(LOCK), "count.held.lock,"),
        ({"a": 1, "b": [0, Helper(LOCK)]}, "count.held['b'][1].lock,"),
        ((1, LOCK), "count.held[1],"),
        (Slotted(LOCK), "count.held.lock,"),
        (Loop(LOCK), "count.held.lock,"),
        (Choosy(LOCK), "count.held.kept[0],"),
        (closure_over(LOCK), "count.held (variable value),"),
        (closure_over(Helper(LOCK)), "count.held (variable value).lock,"),
        (functools.partial(print, LOCK), "count.held.args[0],"),
        (functools.partial(print, file=LOCK), "count.held.keywords['file'],"),
        (Helper(LOCK).__init__, "count.held.__self__.lock,"),  # type: ignore[misc]
    ],
    ids=["attribute", "nested", "items", "tuple", "slots", "loop", "getstate", "closure", "closure nested", "partial",
         "keywords", "method"],
)  # fmt: skip
def test_bolt_that_cannot_be_pickled_is_refused_naming_the_attribute(
    builder: TopologyBuilder, held: Any, path: str
) -> None:
    builder.set_bolt("count2", Sink()).shuffle_grouping("count")
    other = TopologyBuilder()
    other.set_spout("spout", FeederSpout(["word"]))
    other.set_bolt("count", Holder(held)).shuffle_grouping("spout")
    refused(
        lambda: other.create_topology("t"), "count", f"because of {path} of type _thread.lock", "in prepare"
    )


def test_object_whose_own_pickling_raises_is_named(builder: TopologyBuilder) -> None:
    builder.set_bolt("out", Holder(Stubborn())).shuffle_grouping("count")
    refused(lambda: builder.create_topology("t"), "out", "out.held,", "RuntimeError: not me)")


def test_class_pickled_by_value_is_searched_too(builder: TopologyBuilder) -> None:
    lock = threading.Lock()

    class Local(BaseRichBolt):
        def execute(self, tup: Any) -> None:
            lock.acquire()

    builder.set_bolt("out", Local()).shuffle_grouping("count")
    refused(
        lambda: builder.create_topology("t"),
        "out",
        "out (class Local).execute (variable lock),",
        "_thread.lock",
    )


def test_custom_grouping_that_cannot_be_pickled(builder: TopologyBuilder) -> None:
    grouping: CustomStreamGrouping = Evenly()
    grouping.lock = LOCK  # type: ignore[attr-defined]
    builder.set_bolt("out", Sink()).custom_grouping("count", grouping)
    refused(
        lambda: builder.create_topology("t"), "out", "custom grouping Evenly of bolt 'out'", "Evenly.lock,"
    )


def test_spout_that_cannot_be_pickled_is_taken() -> None:
    spout = FeederSpout(["word"])
    spout.lock = LOCK  # type: ignore[attr-defined]
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("out", Sink()).shuffle_grouping("spout")
    assert builder.create_topology("t").spouts["spout"].spout is spout
