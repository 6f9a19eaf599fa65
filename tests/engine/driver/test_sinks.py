"""Sinks on the driver: what they refuse, what a failure says, and what the outbox keeps."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.bolts.sink import DataFrameSink, SinkFile
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.outbox import Outbox
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import BoltError, Fenced, StateCorrupted, TopologyError
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.util.locations import WorkerLocations, open_folder
from tests.engine.jobs import NO_RETRIES, feeder, one_bolt, run, word_count


def test_sinks_refuse_values_that_do_not_fit_what_they_wrote_before(tmp_path: Path) -> None:
    spout = FeederSpout(["word"], [[(1,)], [(1.5,)]])
    with pytest.raises(BoltError, match=r"word double.*word int64.*schema=pyarrow\.schema"):
        run(LocalCluster(), one_bolt(ParquetSink(str(tmp_path)), spout))
    assert pq.read_table(tmp_path).to_pylist() == [{"word": 1}]


@pytest.mark.parametrize(
    ("rows", "schema", "named"),
    [
        ([("a", 1), ("b", "two")], None, "'two', a str, does not fit the field 'count' (int64)"),
        ([("a", 1), ("b", None), ("c", 2**70)], None, f"{2**70}, a int, does not fit the field 'count' (int64)"),
        ([("a", {1: {"x"}})], None, "a dict, does not fit the field 'count'"),
        ([("a", 1), (5, 2)], pa.schema([("word", pa.string()), ("count", pa.int64())]), "5, a int, does not fit"),
        ([("a", 300)], pa.schema([("word", pa.string()), ("count", pa.int8())]), "300, a int, does not fit"),
    ],
)
def test_a_value_that_a_sink_cannot_write_is_named_with_its_field(
    tmp_path: Path, rows: Any, schema: Any, named: str
) -> None:
    sink = ParquetSink(str(tmp_path / "out"), schema=schema)
    with pytest.raises(BoltError) as refused:
        run(LocalCluster(), one_bolt(sink, FeederSpout(["word", "count"], [rows])), NO_RETRIES)
    assert named in refused.value.message
    assert not (tmp_path / "out").exists()


def publish(folder: Path, act: Any, check_claim: Any) -> None:
    """Publish one file of a sink whose function is `act`."""
    outbox = Outbox(open_folder(str(folder)), {"out": DataFrameSink(act)}, lambda locations: None, WorkerLocations())
    outbox.publish(DecisionRecord(outbox=(SinkFile("out", 0, "x/1-1/y", 1, "word string"),)), check_claim)


def test_a_function_of_a_sink_that_raises_is_named_and_the_next_start_is_announced(tmp_path: Path) -> None:
    def fails(frame: Any, txid: int) -> None:
        raise ConnectionError("no database")

    with pytest.raises(BoltError, match=r"no database(.|\n)*publishes the same rows again") as caught:
        publish(tmp_path, fails, lambda: None)
    assert caught.value.message.startswith("Traceback")


@pytest.mark.parametrize("failure", [ConnectionError("no such file"), StateCorrupted("no such file")])
def test_a_sink_whose_files_a_newer_driver_has_published_and_removed_is_not_blamed(
    tmp_path: Path, failure: Exception
) -> None:
    check_claim = Mock()

    def fails(frame: Any, txid: int) -> None:
        check_claim.side_effect = Fenced("another driver runs this topology")
        raise failure

    with pytest.raises(Fenced):
        publish(tmp_path, fails, check_claim)


def test_a_schema_that_is_not_of_pyarrow_is_refused() -> None:
    wrong: Any = {"word": "string"}
    with pytest.raises(TopologyError):
        ParquetSink("out", schema=wrong)


def test_rows_that_are_gone_with_their_checkpoint_location_are_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def decided(component: str, task: int) -> SinkFile:
        return SinkFile(component, task, str(tmp_path / "1-1" / f"{component}-{task}.parquet"), 7, "word string")

    record = DecisionRecord(
        state=CheckpointState(3, Phase.COMMITTING),
        outbox=tuple(decided(component, task) for component in ("out", "rows") for task in (0, 1, 2)),
    )
    there, moved, lost = record.outbox[:3]
    (tmp_path / "1-1").mkdir()
    Path(there.path).write_bytes(b"")
    parquet = ParquetSink(str(tmp_path / "out"))
    Path(moved.path).write_bytes(b"")
    parquet.publish(3, [moved], lambda locations: None)
    function = DataFrameSink(lambda frame, txid: None)
    outbox = Outbox(
        open_folder(str(tmp_path)), {"out": parquet, "rows": function}, lambda locations: None, WorkerLocations()
    )
    with caplog.at_level(logging.WARNING, "anchorbolt.checkpoint"):
        assert outbox.without_lost(record) == replace(record, outbox=(there,))
    of_parquet, of_function = (each.getMessage() for each in caplog.records)
    assert "7 rows of txid 3 for sink 'out'" in of_parquet
    assert lost.path in of_parquet
    assert moved.path not in of_parquet
    assert "21 rows of txid 3 for sink 'rows'" in of_function, "whether its function was called, nobody knows"


def test_the_outbox_keeps_only_the_last_decided_round(tmp_path: Path) -> None:
    conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint")}
    run(LocalCluster(), word_count(feeder("a", "b", "c"), ParquetSink(str(tmp_path / "out"))), conf)
    assert len(list((tmp_path / "checkpoint" / "anchorbolt/outbox").iterdir())) == 1
