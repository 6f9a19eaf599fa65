"""Vectorised bolts in a transactional topology, their ticks, sources and errors."""

import datetime as dt
import time
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from anchorbolt.bolts import ArrowOutputCollector, BaseArrowBolt
from anchorbolt.errors import BoltError, TopologyError
from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams import OutputFieldsDeclarer
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import FilesTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import NO_RETRIES, finished
from tests.engine.vectorised.jobs import COUNTED, COUNTS, SPLITS, counting
from tests.reliability.jobs import MESSAGES, QueueSpout, forget


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("split", SPLITS)
def test_batches_of_transactions_are_counted_once(split: str, count: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a b\n" * 500)
    (tmp_path / "in" / "2.txt").write_text("a\n")
    spout = FilesTransactionalSpout(tmp_path / "in", ["sentence"], take_files=1)
    builder = TransactionalTopologyBuilder("batches", "in", spout, 2)
    builder.set_bolt("split", with_attempt(SPLITS[split]()), 2).shuffle_grouping("in")
    builder.set_committer_bolt("count", with_attempt(COUNTS[count]()), 2).fields_grouping("split", "word")
    topology = builder.build_topology()
    assert topology.components["count"].streams["default"] == StreamDeclaration(("tx", "word", "count"), schema=COUNTED)
    assert finished(topology).state("count") == {"a": 501, "b": 500}


def with_attempt(bolt: Any) -> Any:
    """Let a row bolt emit the attempt first."""
    if isinstance(bolt, BaseArrowBolt):
        return bolt
    kind: Any = type(bolt)

    class WithAttempt(kind):  # type: ignore[misc]
        def execute(self, tup: Any, *collector: Any) -> None:
            if collector:
                for word in tup["sentence"].split(" "):
                    collector[0].emit((tup[0], word))
            else:
                self.collector.emit((tup[0], tup["word"], self.count(tup["word"])), anchors=tup)

    return WithAttempt()


class Notes(BaseArrowBolt):
    """Keeps what it is called with."""

    seen: ClassVar[list[Any]] = []

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        source = collector.source_component, collector.source_stream, collector.source_task
        self.seen.append((source, batch.schema.names, batch.num_rows))
        if "raise" in batch.column(0).to_pylist():
            raise ValueError("raised")

    def execute_tick(self, collector: ArrowOutputCollector) -> None:
        self.seen.append("tick")


def noting(*batches: list[tuple[Any, ...]], fields: tuple[str, ...] = ("word",), **settings: Any) -> list[Any]:
    Notes.seen = []
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(fields, batches))
    builder.set_bolt("notes", Notes()).shuffle_grouping("in")
    finished(builder.create_topology("noting"), settings)
    return Notes.seen


def test_a_block_has_the_fields_and_its_source() -> None:
    assert noting([("a",), ("b",)], []) == [(("in", "default", 0), ["word"], 2)]


def test_a_tick_comes_without_a_block_behind_the_blocks_of_its_wave() -> None:
    Notes.seen = []
    spout = FeederSpout(["word"], [[("a",)]])
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("notes", Notes()).shuffle_grouping("in")
    conf = {"topology.tick.tuple.freq.secs": 0.05}
    handle = LocalCluster().submit(builder.create_topology("ticking"), conf, until_empty=False)
    deadline = time.monotonic() + 30
    while "tick" not in Notes.seen and time.monotonic() < deadline:
        assert not handle.await_termination(0.05)
    assert handle.stop(30)
    assert Notes.seen[0] == (("in", "default", 0), ["word"], 1)
    assert set(Notes.seen[1:]) == {"tick"}


class Ticking(SPLITS["blocks"]):  # type: ignore[misc]
    def execute_tick(self, collector: ArrowOutputCollector) -> None:
        collector.emit_batch([["tick"]])


def test_a_tick_has_no_parents_also_in_a_topology_that_tracks_messages() -> None:
    MESSAGES.append((1, ("a",)))
    conf = {"topology.tick.tuple.freq.secs": 0.05, **NO_RETRIES}
    handle = LocalCluster().submit(
        counting(QueueSpout("sentence"), Ticking(), COUNTS["blocks"]()), conf, until_empty=False
    )
    deadline = time.monotonic() + 30
    while "tick" not in handle.state("count") and time.monotonic() < deadline:
        assert not handle.await_termination(0.05)
    assert handle.stop(30)
    assert handle.state("count")["a"] == 1
    forget()


def test_an_error_names_the_block(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BoltError) as raised:
        noting([("a",), ("raise",)], **NO_RETRIES)
    assert raised.value.tuple_text is not None
    assert "2 tuples" in raised.value.tuple_text
    assert "ValueError: raised" in raised.value.user_traceback


def test_values_that_no_arrow_type_holds_are_refused_with_their_field() -> None:
    with pytest.raises(BoltError, match="'word' of 'in'") as raised:
        noting([(1,), ("a",)], **NO_RETRIES)
    assert "Arrow" in raised.value.message


ZONED = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12, 30)],
        [1.5, True],
        [b"a", "b"],
        [ZONED, ZONED.replace(tzinfo=None)],
        [ZONED.timetz(), None],
        [[dt.date(2020, 1, 1)], None, [dt.datetime(2020, 1, 1, 12, 30)]],
        [{"at": 1.5}, {"at": True}],
    ],
    ids=str,
)
def test_values_that_arrow_would_change_are_refused(values: list[Any]) -> None:
    with pytest.raises(BoltError, match="'word' of 'in'"):
        noting([(value,) for value in values], **NO_RETRIES)


def test_a_value_that_has_no_arrow_type_is_put_aside(tmp_path: Path) -> None:
    seen = noting([("a",), (1j,), ("b",)], **{"topology.dead.letter": str(tmp_path / "dead")})
    assert seen[-1][-1] == 2
    assert len(list((tmp_path / "dead").iterdir())) == 1


class Untyped(SPLITS["blocks"]):  # type: ignore[misc]
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "word")


def test_an_untyped_stream_of_a_transactional_topology_is_emitted_without_its_attempt(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a b\na\n")
    builder = TransactionalTopologyBuilder("untyped", "in", FilesTransactionalSpout(tmp_path / "in", ["sentence"]), 1)
    builder.set_bolt("split", Untyped()).shuffle_grouping("in")
    builder.set_committer_bolt("count", with_attempt(COUNTS["rows"]()), 2).fields_grouping("split", "word")
    assert finished(builder.build_topology()).state("count") == {"a": 2, "b": 1}


def test_an_error_of_a_batch_names_the_fields_without_the_attempt(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("raise\n")
    builder = TransactionalTopologyBuilder("failing", "in", FilesTransactionalSpout(tmp_path / "in", ["sentence"]), 1)
    builder.set_bolt("notes", Notes()).shuffle_grouping("in")
    with pytest.raises(BoltError, match=r"Tuple\(sentence='raise'"):
        finished(builder.build_topology(), NO_RETRIES)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("at", pa.timestamp("ns"))]),
        pa.schema([("pairs", pa.map_(pa.string(), pa.int64()))]),
        pa.schema([("nested", pa.list_(pa.time64("ns")))]),
        pa.schema([("twice", pa.int64()), ("twice", pa.int64())]),
        pa.schema([("half", pa.float16())]),
    ],
    ids=str,
)
def test_a_type_that_row_bolts_cannot_get_is_refused(schema: pa.Schema) -> None:
    with pytest.raises(TopologyError):
        OutputFieldsDeclarer("bolt").declare(schema)


def test_a_value_that_does_not_fit_the_declared_type_is_named() -> None:
    class Wrong(SPLITS["rows"]):  # type: ignore[misc]
        def execute(self, tup: Any, collector: Any) -> None:
            collector.emit((len(tup["sentence"]),))

    with pytest.raises(Exception, match=r"'word' the value 3, .* string"):
        finished(counting(FeederSpout(["sentence"], [[("abc",)]]), Wrong(), COUNTS["rows"]()), NO_RETRIES)
