"""Refused topologies: the error names the component, and a similar name if one exists."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.bolts.base import BaseRichBolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.topology import TopologyBuilder
from tests.topology.test_topology_builder import Evenly, Sink, Split, counting


@pytest.fixture
def builder() -> TopologyBuilder:
    return counting()


def refused(action: Callable[[], object], component: str | None, hint: str = "") -> TopologyError:
    with pytest.raises(TopologyError) as caught:
        action()
    assert caught.value.component == component
    assert hint in caught.value.message
    assert caught.value.message.endswith(".")
    return caught.value


# Each adds a bolt "out" that makes the graph wrong; `create_topology` then refuses it.
WRONG_INPUTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "no stream": (lambda out: out, "takes no stream"),
    "unknown component": (lambda out: out.shuffle_grouping("coutn"), "Did you mean 'count'?"),
    "unknown stream": (lambda out: out.shuffle_grouping("count", "lates"), "Did you mean 'late'?"),
    "its own stream": (lambda out: out.shuffle_grouping("out"), "It declares none."),
    "unknown field": (lambda out: out.fields_grouping("count", "word", "cuont"), "Did you mean 'count'?"),
    "unknown partial key": (lambda out: out.partial_key_grouping("count", "cuont"), "Did you mean 'count'?"),
    "direct grouping of another stream": (lambda out: out.direct_grouping("count"), "direct=True"),
    "direct stream by fields": (
        lambda out: out.fields_grouping("count", "word", stream="to-task"),
        "by direct_grouping",
    ),
}


@pytest.mark.parametrize(("declare", "hint"), WRONG_INPUTS.values(), ids=WRONG_INPUTS)
def test_inputs_that_do_not_fit_the_graph(
    builder: TopologyBuilder, declare: Callable[[Any], object], hint: str
) -> None:
    declare(builder.set_bolt("out", Sink()))
    refused(lambda: builder.create_topology("t"), "out", hint)


# Each is refused by the declarer itself.
WRONG_ARGUMENTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "no field": (lambda out: out.fields_grouping("count"), "names no field"),
    "a list of fields": (lambda out: out.fields_grouping("count", ["word"]), "['word']"),
    "a field twice": (lambda out: out.fields_grouping("count", "word", "word"), "'word' is named twice"),
    "a stream twice": (
        lambda out: out.shuffle_grouping("count", "late").fields_grouping("count", "word", stream="late"),
        "taken by shuffle, now by fields(word)",
    ),
    "a grouping's class": (lambda out: out.custom_grouping("count", Evenly), "Pass Evenly(), not Evenly."),
    "no grouping": (lambda out: out.custom_grouping("count", len), "CustomStreamGrouping"),
}


@pytest.mark.parametrize(("declare", "hint"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_arguments_of_a_grouping(builder: TopologyBuilder, declare: Callable[[Any], object], hint: str) -> None:
    declarer = builder.set_bolt("out", Sink())
    refused(lambda: declare(declarer), "out", hint)
    assert [each.source.stream for each in declarer.inputs] in ([], ["late"])


# Each is refused when the component is added: by which method, with which arguments.
WRONG_COMPONENTS: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "a bolt's class": ("set_bolt", (Sink,), "Pass Sink(), not Sink."),
    "a spout's class": ("set_spout", (FeederSpout,), "Pass FeederSpout(), not"),
    "neither bolt": ("set_bolt", (print,), "builtin_function"),
    "nor spout": ("set_spout", ("text",), "'text', of type str"),
    "a spout as a bolt": ("set_bolt", (FeederSpout(["a"]),), "with set_spout"),
    "a bolt as a spout": ("set_spout", (Sink(),), "with set_bolt"),
    **{
        f"parallelism {parallelism!r}": ("set_bolt", (Sink(), parallelism), repr(parallelism))
        for parallelism in (0, -1, True, False, 1.0, "2", None)
    },
    "a spout's parallelism": ("set_spout", (FeederSpout(["a"]), 0), "at least 1"),
}


@pytest.mark.parametrize(("method", "arguments", "hint"), WRONG_COMPONENTS.values(), ids=WRONG_COMPONENTS)
def test_components_that_cannot_be_added(
    builder: TopologyBuilder, method: str, arguments: tuple[Any, ...], hint: str
) -> None:
    refused(lambda: getattr(builder, method)("out", *arguments), "out", hint)
    builder.set_bolt("out", Sink()).shuffle_grouping("count")
    assert "out" in builder.create_topology("t").bolts


def test_an_id_that_is_taken(builder: TopologyBuilder) -> None:
    refused(lambda: builder.set_bolt("split", Sink()), "split", "bolt")
    refused(lambda: builder.set_bolt("sentences", Sink()), "sentences", "spout")
    refused(lambda: builder.set_spout("split", FeederSpout(["a"])), "split", "bolt")


@pytest.mark.parametrize(
    "id", ["$checkpointspout", "__acker", "", ".hidden", "a b", "a:b", "x" * 129, "ü", None, 7, "a\n"]
)
def test_names_that_are_reserved_or_invalid(builder: TopologyBuilder, id: Any) -> None:
    hint = "reserved" if str(id).startswith(("$", "__")) else "not a valid name"
    for action in (
        lambda: builder.set_bolt(id, Sink()),
        lambda: builder.set_spout(id, FeederSpout(["a"])),
        lambda: builder.create_topology(id),
        lambda: builder.set_bolt("out", Sink()).shuffle_grouping(id),
    ):
        refused(action, id if isinstance(id, str) else None, hint)


@pytest.mark.parametrize(
    ("sources", "cycles"),
    [
        ({"a": "c", "b": "a", "c": "b"}, ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c")),
        ({"a": "a"}, ("a -> a",)),
    ],
)
def test_a_cycle_is_named_in_the_direction_of_the_data(sources: dict[str, str], cycles: tuple[str, ...]) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["word"]))
    for bolt, source in sources.items():
        builder.set_bolt(bolt, Split()).shuffle_grouping("spout").shuffle_grouping(source)
    with pytest.raises(TopologyError) as caught:
        builder.create_topology("t")
    assert any(cycle in caught.value.message for cycle in cycles)
    assert caught.value.component in sources


def test_a_topology_without_spouts_or_bolts() -> None:
    builder = TopologyBuilder()
    builder.set_bolt("a", Split()).shuffle_grouping("b")
    refused(lambda: builder.create_topology("t"), None, "no spout")
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["word"]))
    refused(lambda: builder.create_topology("t"), None, "no bolt")


def test_a_declaration_that_raises_is_the_cause_of_the_error() -> None:
    class Broken(Spout):
        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            raise KeyError("conf")

    error = refused(lambda: TopologyBuilder().set_spout("broken", Broken()), "broken", "KeyError: 'conf'")
    assert isinstance(error.__cause__, KeyError)


class Holder(BaseRichBolt):
    """A bolt with an attribute. Its class is pickled by reference."""

    def __init__(self, held: Any) -> None:
        self.name = "fine"
        self.held = held

    def execute(self, tup: Any) -> None:
        raise NotImplementedError


class Choosy(Holder):
    """Its `__getstate__` leaves out an attribute that cannot be pickled."""

    def __init__(self, held: Any) -> None:
        self.dropped = held
        super().__init__(held)

    def __getstate__(self) -> dict[str, Any]:
        return {"held": self.held}


class Stubborn(Holder):
    def __reduce__(self) -> Any:
        raise RuntimeError("not me\nand more")


LOCK = threading.Lock()


def local_bolt() -> BaseRichBolt:
    lock = threading.Lock()

    class Local(BaseRichBolt):
        def execute(self, tup: Any) -> None:
            lock.acquire()

    return Local()


@pytest.mark.parametrize(
    ("bolt", "named"),
    [
        (Holder(LOCK), "because of out.held, of type _thread.lock (TypeError: "),
        (Holder([LOCK]), "because of out.held, of type builtins.list (TypeError: "),
        (Choosy(LOCK), "because of out.held, of type _thread.lock (TypeError: "),
        (Holder(Stubborn(1)), "because of out.held, of type tests.topology.test_topology_refusals.Stubborn (RuntimeE"),
        (
            Stubborn(1),
            "because of out, of type tests.topology.test_topology_refusals.Stubborn (RuntimeError: not me). ",
        ),
        (local_bolt(), "because of out, of type tests.topology.test_topology_refusals.local_bolt.<locals>.Local ("),
    ],
    ids=["attribute", "nested", "getstate", "raises", "bolt raises", "class"],
)
def test_a_bolt_that_cannot_be_pickled_is_refused_with_its_attribute(
    builder: TopologyBuilder, bolt: BaseRichBolt, named: str
) -> None:
    builder.set_bolt("out", bolt).shuffle_grouping("count")
    refused(lambda: builder.create_topology("t"), "out", named)


def test_a_custom_grouping_must_be_picklable_and_a_spout_need_not(builder: TopologyBuilder) -> None:
    grouping, spout = Evenly(), FeederSpout(["word"])
    grouping.lock = spout.lock = LOCK  # type: ignore[attr-defined]
    builder.set_spout("spout", spout)
    assert builder.create_topology("t").spouts["spout"].spout is spout
    builder.set_bolt("out", Sink()).custom_grouping("count", grouping)
    refused(lambda: builder.create_topology("t"), "out", "because of Evenly.lock,")


def test_a_spout_that_need_not_be_picklable_is_not_copied(builder: TopologyBuilder) -> None:
    copied: list[Any] = []

    class Copied(FeederSpout):
        def __deepcopy__(self, memo: Any) -> "Copied":
            copied.append(self)
            return self

    builder.set_spout("spout", Copied(["word"]))
    builder.create_topology("t")
    assert copied == []
