"""A topology with vectorised bolts gives the same state, rows and acks as one of row bolts."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import ArrowOutputCollector, BaseArrowBolt, BaseBasicBolt, BasicOutputCollector, ParquetSink
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams import OutputFieldsDeclarer, Tuple, columns
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import finished
from tests.engine.vectorised.jobs import COUNTS, SPLITS, counting
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, forget, letters_in

sentences = st.lists(st.sampled_from(["a", "b", "ü", "🐍", "word"]), min_size=1, max_size=6).map(" ".join)
batches = st.lists(st.lists(sentences, max_size=30), min_size=1, max_size=3)
kinds = st.sampled_from(["rows", "blocks"])


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    forget()


@settings(max_examples=40)
@given(batches=batches, split=kinds, count=kinds, typed=st.booleans(), few=st.sampled_from([0, 256]))
def test_counts_are_those_of_rows(batches: list[list[str]], split: str, count: str, typed: bool, few: int) -> None:
    spout = FeederSpout(["sentence"], [[(each,) for each in batch] for batch in batches])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("streams.columns", "streams.routing"):
            patch.setattr(f"anchorbolt.{name}.FEW", few)
        handle = finished(counting(spout, SPLITS[split](typed=typed), COUNTS[count](typed=typed)))
    assert columns.FEW == 256
    assert handle.state("count") == Counter(word for batch in batches for each in batch for word in each.split(" "))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("split", SPLITS)
def test_both_kinds_may_be_chained(split: str, count: str, tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("sentences", FeederSpout(["sentence"], [[("a b a",), ("c",)] * 300]))
    builder.set_bolt("split", SPLITS[split]()).shuffle_grouping("sentences")
    builder.set_bolt("count", COUNTS[count]()).none_grouping("split")
    builder.set_bolt("out", ParquetSink(str(tmp_path / "out"))).local_or_shuffle_grouping("count")
    topology = builder.create_topology("t")
    assert topology.chained == {"count": "split", "out": "count"}
    handle = finished(topology)
    assert handle.state("count") == {"a": 600, "b": 300, "c": 300}
    assert pq.read_table(tmp_path / "out").num_rows == 1200


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("split", SPLITS)
def test_a_sink_gets_the_same_rows_in_the_same_columns(split: str, count: str, tmp_path: Path) -> None:
    spout = FeederSpout(["sentence"], [[("a b a",), ("c",)] * 300, [], [("b",)]])
    finished(counting(spout, SPLITS[split](), COUNTS[count](), ParquetSink(str(tmp_path / "out"))))
    files = sorted((tmp_path / "out").glob("part-*.parquet"))
    tables = [pq.read_table(file) for file in files]
    assert {str(table.schema.remove_metadata()) for table in tables} == {"word: string\ncount: int64"}
    rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    expected = [
        *(("a", n) for n in range(1, 601)),
        *(("b", n) for n in range(1, 302)),
        *(("c", n) for n in range(1, 301)),
    ]
    assert sorted(rows) == expected


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("split", SPLITS)
def test_messages_are_acked_and_the_poisoned_ones_are_dead_letters(split: str, count: str, tmp_path: Path) -> None:
    given = ["a b", "bad x", "a", "fail y", "b a bad", "c"]
    MESSAGES.extend((number, (each,)) for number, each in enumerate(given))
    conf = {"topology.dead.letter": str(tmp_path / "dead"), "topology.max.tuple.retries": 1}
    handle = finished(counting(QueueSpout("sentence"), SPLITS[split](), COUNTS[count]()), conf)
    assert handle.state("count") == {"a": 2, "b": 1, "c": 1}
    assert sorted(ACKED) == list(range(6)), (ACKED, FAILED)
    assert {1, 3, 4} <= set(FAILED)
    assert sorted(each["message_id"] for each in letters_in(tmp_path / "dead")) == [1, 3, 4]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("split", SPLITS)
def test_a_poisoned_row_of_an_untracked_topology_is_left_out(split: str, count: str, tmp_path: Path) -> None:
    spout = FeederSpout(["sentence"], [[("a b",), ("bad x",), ("a",)], [("a bad",), ("c",)]])
    conf = {"topology.dead.letter": str(tmp_path / "dead")}
    handle = finished(counting(spout, SPLITS[split](), COUNTS[count]()), conf)
    assert handle.state("count") == {"a": 2, "b": 1, "c": 1}
    assert sorted(each["values"] for each in letters_in(tmp_path / "dead")) == [["a bad"], ["bad x"]]


def test_a_bolt_may_become_vectorised_over_its_own_state_and_back(tmp_path: Path) -> None:
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "state")},
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
    }
    for run, count in enumerate(("rows", "blocks", "rows"), start=1):
        spout = FeederSpout(["sentence"], [[("a b a",)]])
        handle = finished(counting(spout, SPLITS["rows"](), COUNTS[count]()), conf)
        assert handle.state("count") == {"a": 2 * run, "b": run}


VALUES: dict[str, tuple[Any, pa.DataType]] = {
    "bool": (st.booleans(), pa.bool_()),
    "int": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "short": (st.integers(-128, 127), pa.int8()),
    "float": (st.floats(allow_nan=False), pa.float64()),
    "str": (st.text(st.characters(codec="utf-8"), max_size=5), pa.string()),
    "bytes": (st.binary(max_size=5), pa.binary()),
    "date": (st.dates(), pa.date32()),
    "time": (st.times(), pa.time64("us")),
    "duration": (st.timedeltas(dt.timedelta(-10000), dt.timedelta(10000)), pa.duration("us")),
    "datetime": (st.datetimes(), pa.timestamp("us")),
    "in UTC": (st.datetimes().map(lambda each: each.replace(tzinfo=dt.timezone.utc)), pa.timestamp("us", "UTC")),
    "decimal": (st.decimals(-(10**9), 10**9, places=3), pa.decimal128(20, 3)),
    "list": (st.lists(st.integers(0, 9), max_size=3), pa.list_(pa.int64())),
    "struct": (st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.text("xy", max_size=2)}),
               pa.struct([("a", pa.int64()), ("b", pa.string())])),
}  # fmt: skip


class Rows(BaseBasicBolt):
    """Passes values on, and keeps them."""

    seen: ClassVar[list[Any]] = []

    def __init__(self, kind: pa.DataType | None) -> None:
        self.kind = kind

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.seen.append(tup["value"])
        collector.emit((tup["value"],))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("value") if self.kind is None else declarer.declare(pa.schema([("value", self.kind)]))


class Blocks(BaseArrowBolt):
    """Passes values on."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        assert batch.schema.field("value").type in (self.kind, pa.null()) or self.kind == pa.int8()
        collector.emit_batch([batch["value"]], parents=range(batch.num_rows))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(pa.schema([("value", self.kind)]))


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=15)
@given(data=st.data())
def test_values_and_their_types_are_the_same_whichever_way_they_went(kind: str, data: st.DataObject) -> None:
    values, arrow = VALUES[kind]
    given: Sequence[Any] = data.draw(st.lists(st.none() | values, max_size=20))
    grouping = data.draw(st.sampled_from(["shuffle", "fields", "all"]))
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["value"], [[(each,) for each in given]]))
    builder.set_bolt("first", Rows(arrow)).shuffle_grouping("in")
    builder.set_bolt("second", Blocks(arrow)).shuffle_grouping("first")
    third = builder.set_bolt("third", Rows(None))
    if grouping == "fields" and kind not in ("list", "struct"):
        third.fields_grouping("second", "value")
    else:
        third.all_grouping("second") if grouping == "all" else third.shuffle_grouping("second")
    Rows.seen = []
    finished(builder.create_topology("values"))
    size = len(given)
    for seen in (Rows.seen[:size], Rows.seen[size:]):
        assert seen == list(given)
        assert list(map(type, seen)) == list(map(type, given))
        if kind == "in UTC":
            assert {each.tzinfo for each in seen if each is not None} <= {dt.timezone.utc}
        if kind == "decimal":
            assert list(map(str, seen)) == list(map(str, given))


@pytest.mark.parametrize("size", [10, 300])
def test_a_key_keeps_its_declared_dictionary_type(size: int) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["value"], [[("a",)] * size]))
    builder.set_bolt("first", Rows(kind)).shuffle_grouping("in")
    builder.set_bolt("second", Blocks(kind)).fields_grouping("first", "value")
    finished(builder.create_topology("keys"), {"topology.max.batch.retries": 0})
