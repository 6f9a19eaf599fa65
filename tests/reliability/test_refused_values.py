"""A value that cannot be sent, grouped by or written belongs to the tuple that it came from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.errors import BoltError, UnsupportedValue
from anchorbolt.streams import CustomStreamGrouping
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, StatefulBolt, chain, finished
from tests.reliability.jobs import ACKED, MESSAGES, QueueSpout, RichBolt, letters_in

MANY = 1500  # more than the first buffer holds
BAD = 700

VALUES: dict[str, Any] = {
    "a lone surrogate": "caf\udcbe",
    "a map": map(str, [1]),
    "a list to group by": ["unhashable"],
    "a nested object": (1, {"in": [object()]}),
}
OF_BOLT = ["a lone surrogate", "a list to group by", "a nested object", "another width"]


def value_of(number: int, case: str) -> tuple[Any, ...]:
    if number != BAD:
        return (f"n{number}",)
    return ("n", 1) if case == "another width" else (VALUES[case],)


class Names(BasicBolt):
    fields = ("word",)

    def __init__(self, case: str) -> None:
        self.case = case

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(value_of(tup["number"], self.case))


class RichNames(RichBolt):
    fields = ("word",)

    def __init__(self, case: str) -> None:
        self.case = case

    def execute(self, tup: Any) -> None:
        self.collector.emit(value_of(tup["number"], self.case), anchors=tup)
        self.collector.ack(tup)


class Careful(RichNames):
    """Catches what its emit raises."""

    def execute(self, tup: Any) -> None:
        try:
            super().execute(tup)
        except Exception:
            self.collector.emit(("caught",), anchors=tup)
            self.collector.ack(tup)


def spout_of(source: str, rows: Sequence[tuple[Any, ...]], field: str) -> Any:
    if source == "feeder":
        return FeederSpout([field], [list(rows)])
    MESSAGES.extend(enumerate(rows))
    return QueueSpout(field)


def names(source: str, bolt: Any) -> Topology:
    return chain(
        "values",
        {
            "in": spout_of(source, [(number,) for number in range(MANY)], "number"),
            "names": bolt,
            "count": (StatefulBolt(), 2, "word"),
        },
    )


def run(topology: Topology, folder: Path | None, **given: Any) -> Any:
    conf = {"topology.max.tuple.retries": 0, "topology.dead.letter": str(folder)} if folder else {}
    return finished(topology, conf | given)


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize("kind", [Names, RichNames])
@pytest.mark.parametrize("case", OF_BOLT)
def test_a_tuple_of_which_a_bolt_makes_such_a_value_is_a_dead_letter(
    source: str, kind: type, case: str, tmp_path: Path
) -> None:
    handle = run(names(source, kind(case)), tmp_path / "dead")
    assert handle.state("count") == {f"n{number}": 1 for number in range(MANY) if number != BAD}
    assert len(ACKED) == (MANY if source == "rich" else 0)
    [letter] = letters_in(tmp_path / "dead")
    assert (letter["values"], letter["component"]) == ([BAD], "names")
    assert ".emit(value_of(" in letter["reason"]


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize("kind", [Names, RichNames])
@pytest.mark.parametrize("case", OF_BOLT)
def test_without_dead_letters_the_error_has_the_tuple_and_the_line(source: str, kind: type, case: str) -> None:
    with pytest.raises(BoltError) as raised:
        run(names(source, kind(case)), None, **{"topology.max.batch.retries": 0})
    assert (raised.value.component, raised.value.task_index) == ("names", 0)
    assert f"number={BAD}" in str(raised.value.tuple_text)
    assert ".emit(value_of(" in raised.value.user_traceback
    assert not raised.value.found_late
    if case == "a nested object":
        assert "[1]['in'][0]" in raised.value.message
    if case != "another width":
        assert "word" in raised.value.message


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize("folder", [None, "dead"])
def test_a_bolt_that_catches_it_loses_no_other_tuple(source: str, folder: str | None, tmp_path: Path) -> None:
    handle = run(names(source, Careful("a lone surrogate")), tmp_path / folder if folder else None)
    expected = {f"n{number}": 1 for number in range(MANY) if number != BAD}
    assert handle.state("count") == expected | {"caught": 1}
    assert letters_in(tmp_path / "dead") == []


class ByLength(CustomStreamGrouping):
    def prepare(self, context: Any, stream: Any, target_tasks: Sequence[int]) -> None:
        self.tasks = target_tasks

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [self.tasks[int(values[0].removeprefix("n")) % len(self.tasks)]]


def grouped_by_length(bolt: Any, *spout: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout_of(*spout))
    source = "in"
    if bolt is not None:
        builder.set_bolt("names", bolt).shuffle_grouping("in")
        source = "names"
    builder.set_bolt("count", StatefulBolt(), parallelism=2).custom_grouping(source, ByLength())
    return builder.create_topology("values")


class OddNames(Names):
    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(("odd" if tup["number"] == BAD else f"n{tup['number']}",))


@pytest.mark.parametrize("folder", [None, "dead"])
def test_a_grouping_that_raises_on_a_value_fails_its_tuple(folder: str | None, tmp_path: Path) -> None:
    topology = grouped_by_length(OddNames(""), "feeder", [(number,) for number in range(MANY)], "number")
    if folder is None:
        with pytest.raises(BoltError) as raised:
            run(topology, None)
        assert f"number={BAD}" in str(raised.value.tuple_text)
        assert "choose_tasks" in raised.value.user_traceback
        return
    assert len(run(topology, tmp_path / folder).state("count")) == MANY - 1
    assert [letter["values"] for letter in letters_in(tmp_path / folder)] == [[BAD]]


@pytest.mark.parametrize("source", ["feeder", "rich"])
def test_a_grouping_that_raises_on_a_row_of_a_spout_fails_the_row(source: str, tmp_path: Path) -> None:
    topology = grouped_by_length(None, source, [("n0",), ("odd",), ("n2",)], "word")
    assert run(topology, tmp_path / "dead").state("count") == {"n0": 1, "n2": 1}
    assert [letter["values"] for letter in letters_in(tmp_path / "dead")] == [["odd"]]


def from_spout(source: str, case: str) -> Topology:
    builder = TopologyBuilder()
    rows = [(VALUES[case],) if number == 5 else (f"n{number}",) for number in range(10)]
    builder.set_spout("in", spout_of(source, rows, "word"))
    builder.set_bolt("count", StatefulBolt(), parallelism=2).fields_grouping("in", "word")
    return builder.create_topology("values")


OF_SPOUT = [*(("feeder", case) for case in VALUES), ("rich", "a list to group by")]


@pytest.mark.parametrize(("source", "case"), OF_SPOUT)
def test_a_row_of_a_spout_with_such_a_value_is_a_dead_letter(source: str, case: str, tmp_path: Path) -> None:
    handle = run(from_spout(source, case), tmp_path / "dead")
    assert handle.state("count") == {f"n{number}": 1 for number in range(10) if number != 5}
    assert len(ACKED) == (10 if source == "rich" else 0)
    [letter] = letters_in(tmp_path / "dead")
    assert (letter["spout"], letter["component"]) == ("in", "in")
    assert "word" in letter["reason"]


@pytest.mark.parametrize(("source", "case"), OF_SPOUT)
def test_without_dead_letters_a_row_of_a_spout_is_named(source: str, case: str) -> None:
    with pytest.raises(UnsupportedValue) as raised:
        run(from_spout(source, case), None, **{"topology.max.batch.retries": 0})
    assert "'in'" in raised.value.message
    assert "It is in the tuple" in raised.value.message


def test_what_a_rich_spout_emits_is_named_with_its_message_id() -> None:
    with pytest.raises(UnsupportedValue) as raised:
        run(from_spout("rich", "a nested object"), None)
    for named in ("spout 'in'", "'word'", "[1]['in'][0]", "message id 5"):
        assert named in raised.value.message


class Amounts(Names):
    fields = ("number", "amount")

    def execute(self, tup: Any, collector: Any) -> None:
        number = tup["number"]
        collector.emit((number, {"text": "n/a", "large": 2**70, "list": [1]}[self.case] if number == BAD else number))


def to_sink(source: str, case: str, sink: Any) -> Topology:
    return chain(
        "values",
        {
            "in": spout_of(source, [(number,) for number in range(MANY)], "number"),
            "amounts": Amounts(case),
            "out": sink,
        },
    )


@pytest.mark.parametrize("source", ["feeder", "rich"])
@pytest.mark.parametrize("case", ["text", "large", "list"])
def test_a_row_that_does_not_fit_a_sink_is_a_dead_letter(source: str, case: str, tmp_path: Path) -> None:
    run(to_sink(source, case, ParquetSink(str(tmp_path / "out"))), tmp_path / "dead")
    written = pq.read_table(tmp_path / "out").to_pydict()
    assert sorted(written["amount"]) == sorted(set(range(MANY)) - {BAD})
    [letter] = letters_in(tmp_path / "dead")
    assert (letter["values"], letter["component"]) == ([BAD], "out")
    assert "'amount'" in letter["reason"]


class Halves(ParquetSink):
    def outbox_columns(self, fields: Any, columns: Any) -> Any:
        return ["half"], [[amount // 2 for amount in columns[1]]]


@pytest.mark.parametrize("sink", [ParquetSink, Halves])
def test_without_dead_letters_the_row_that_does_not_fit_is_named(sink: Any, tmp_path: Path) -> None:
    with pytest.raises(BoltError) as raised:
        run(to_sink("feeder", "text", sink(str(tmp_path / "out"))), None)
    assert f"number={BAD}" in str(raised.value.tuple_text)
    assert ("// 2" in raised.value.user_traceback) == (sink is Halves)
