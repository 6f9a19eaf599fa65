"""Sinks on the driver: what they refuse, what a failure says, and what the outbox keeps."""

import datetime as dt
import logging
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.outbox import Outbox
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import (
    AnchorboltError,
    BoltError,
    ConfigError,
    Fenced,
    SinkUnavailable,
    StateCorrupted,
    StateUnavailable,
    TopologyError,
    WaveFailed,
)
from anchorbolt.files import FileSystemGone, Folder, WorkerLocations, open_folder
from anchorbolt.files.local_folder import LocalFolder
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.testing import FeederSpout
from tests.engine.jobs import NO_RETRIES, feeder, one_bolt, run, word_count


def test_a_value_of_no_type_is_to_be_declared_as_long_as_no_file_has_a_type_of_its_column(tmp_path: Path) -> None:
    spout = FeederSpout(["word"], [[(None,)], [((1, "a"),)]])
    with pytest.raises(BoltError, match=r"'word'.*schema=pyarrow\.schema"):
        run(LocalCluster(), one_bolt(ParquetSink(str(tmp_path)), spout))


def test_sinks_refuse_values_that_do_not_fit_what_they_wrote_before(tmp_path: Path) -> None:
    spout = FeederSpout(["word"], [[(1,)], [(1.5,)]])
    with pytest.raises(BoltError, match=r"'word' \(int64\).*another place and a schema.*topology\.dead\.letter"):
        run(LocalCluster(), one_bolt(ParquetSink(str(tmp_path)), spout))
    assert pq.read_table(tmp_path).to_pylist() == [{"word": 1}]


@pytest.mark.parametrize(
    ("before", "other"), [(1, Decimal("1.5")), (1.5, True), (dt.datetime(2026, 11, 27), 5), (dt.date(2026, 11, 27), 5)]
)
def test_values_that_arrow_would_change_without_an_error_are_refused_too(
    tmp_path: Path, before: Any, other: Any
) -> None:
    spout = FeederSpout(["word"], [[(before,)], [(before,), (other,)]])
    with pytest.raises(BoltError) as refused:
        run(LocalCluster(), one_bolt(ParquetSink(str(tmp_path)), spout), NO_RETRIES)
    assert f"{other!r}, a {type(other).__name__}, does not fit the field 'word'" in refused.value.message
    assert pq.read_table(tmp_path).to_pylist() == [{"word": before}]


@pytest.mark.parametrize(
    ("rows", "schema", "named"),
    [
        ([("a", 1), ("b", "two")], None, "'two', a str, does not fit the field 'count' (int64)"),
        ([("a", 1), ("b", None), ("c", 2**70)], None, f"{2**70}, a int, does not fit the field 'count' (int64)"),
        ([("a", {1: 1j})], None, "a dict, does not fit the field 'count'"),
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
    outbox = Outbox(
        open_folder(str(folder)), {"out": DataFrameSink(act)}, lambda files, columns: None, WorkerLocations()
    )
    outbox.publish(DecisionRecord(outbox=(SinkFile("out", 0, "x/1-1/y", 1, b""),)), check_claim)


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
        return SinkFile(component, task, str(tmp_path / "1-1" / f"{component}-{task}.parquet"), 7, b"")

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
        open_folder(str(tmp_path)), {"out": parquet, "rows": function}, lambda files, columns: None, WorkerLocations()
    )
    with caplog.at_level(logging.WARNING, "anchorbolt.checkpoint"):
        assert outbox.without_lost(record) == replace(record, outbox=(there,))
    of_parquet, of_function = (each.getMessage() for each in caplog.records)
    assert "7 rows of txid 3 for sink 'out'" in of_parquet
    assert lost.path in of_parquet
    assert moved.path not in of_parquet
    assert "21 rows of txid 3 for sink 'rows'" in of_function, "whether its function was called, nobody knows"


PENDING = DecisionRecord(
    state=CheckpointState(3, Phase.COMMITTING), outbox=(SinkFile("out", 0, "hdfs://old/1-1/a.parquet", 7, b""),)
)


def outbox_of(folder: Any) -> Outbox:
    """Return an outbox whose run opens every location as this folder, or raises it."""
    locations = Mock()
    locations.open.side_effect = folder if isinstance(folder, Exception) else lambda location: folder
    return Outbox(Mock(), {"out": DataFrameSink(lambda frame, txid: None)}, Mock(), locations)


@pytest.mark.parametrize("error", [FileSystemGone("no such bucket"), FileNotFoundError("no such folder")])
def test_rows_of_a_bucket_that_was_removed_are_lost(error: OSError, caplog: pytest.LogCaptureFixture) -> None:
    folder = Mock(**{"exists.side_effect": error})
    with caplog.at_level(logging.WARNING, "anchorbolt.checkpoint"):
        assert outbox_of(folder).without_lost(PENDING).outbox == ()
    assert "7 rows of txid 3 for sink 'out'" in caplog.text


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        (Mock(**{"exists.side_effect": OSError("no route to host")}), StateUnavailable),
        (ConfigError("no FileSystem for scheme oss"), ConfigError),
    ],
)
def test_rows_whose_file_system_cannot_be_asked_are_not_taken_for_lost(
    folder: Any, kind: type[AnchorboltError]
) -> None:
    with pytest.raises(kind, match=r"hdfs://old/1-1/a\.parquet.*(no route|no FileSystem)"):
        outbox_of(folder).without_lost(PENDING)


def written_by(folder: Folder, name: str) -> SinkFile:
    """Write a file of round 1-2 as a task that sees this folder."""
    with folder.create(f"anchorbolt/outbox/1-2/{name}") as file:
        file.write(b"rows")
    return SinkFile("out", 3, f"{folder.location}/anchorbolt/outbox/1-2/{name}", 1, b"")


def test_a_file_that_the_driver_does_not_see_fails_the_round_before_it_is_decided(tmp_path: Path) -> None:
    shared, own_disk = (open_folder(str(tmp_path / name)) for name in ("shared", "own"))
    outbox = Outbox(shared, {}, lambda files, columns: None, WorkerLocations(), shared_by_machines=True)
    seen, unseen = written_by(shared, "out-0-a.parquet"), written_by(own_disk, "out-3-b.parquet")
    outbox.check_prepared(7, [])
    outbox.check_prepared(7, [seen])
    with pytest.raises(WaveFailed, match="task 3 of sink 'out'") as caught:
        outbox.check_prepared(7, [seen, unseen])
    assert caught.value.txid == 7
    assert unseen.path in caught.value.message
    assert shared.location in caught.value.message


def test_files_are_looked_for_only_where_tasks_run_on_other_machines_and_once_a_round(tmp_path: Path) -> None:
    folder = Mock(**{"names.return_value": ["a", "b"], "location": str(tmp_path)})
    files = [SinkFile("out", 0, f"{tmp_path}/anchorbolt/outbox/1-2/{name}", 1, b"") for name in "ab"]
    Outbox(folder, {}, Mock(), WorkerLocations()).check_prepared(7, files)
    folder.names.assert_not_called()
    elsewhere = Outbox(folder, {}, Mock(), WorkerLocations(), shared_by_machines=True)
    elsewhere.check_prepared(7, files)
    folder.names.assert_called_once_with("anchorbolt/outbox/1-2")
    folder.names.side_effect = OSError("no answer")
    with pytest.raises(SinkUnavailable):
        elsewhere.check_prepared(7, files)


def test_a_wave_whose_rows_a_task_wrote_to_a_disk_of_its_own_is_not_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalFolder.create

    def elsewhere(folder: LocalFolder, name: str) -> Any:
        place = tmp_path / "own" if "outbox" in name else Path(folder.location)
        return write(LocalFolder(str(place), place), name)

    def of_machines(*arguments: Any, **options: Any) -> ExecutionPlan:
        return prepare_plan(*arguments, **options, shared_by_machines=True)

    conf = NO_RETRIES | {"topology.checkpoint.location": str(tmp_path / "checkpoint")}
    topology = word_count(feeder("a b", "c"), ParquetSink(str(tmp_path / "out")))
    cluster = LocalCluster()
    monkeypatch.setattr("anchorbolt.run.local_cluster.prepare_plan", of_machines)
    with monkeypatch.context() as patched:
        patched.setattr(LocalFolder, "create", elsewhere)
        with pytest.raises(WaveFailed, match="does not see"):
            run(cluster, topology, conf)
    run(cluster, topology, conf)
    assert pq.read_table(tmp_path / "out").num_rows == 3


def test_the_outbox_keeps_only_the_last_decided_round(tmp_path: Path) -> None:
    conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint")}
    run(LocalCluster(), word_count(feeder("a", "b", "c"), ParquetSink(str(tmp_path / "out"))), conf)
    assert len(list((tmp_path / "checkpoint" / "anchorbolt/outbox").iterdir())) == 1


def test_a_sink_that_cannot_end_its_run_keeps_no_other_from_ending_it(caplog: pytest.LogCaptureFixture) -> None:
    ended = list[str]()

    class Ends(DataFrameSink):
        def __init__(self, name: str) -> None:
            super().__init__(lambda frame, txid: None)
            self.name = name

        def end_run(self) -> None:
            ended.append(self.name)
            if self.name == "second":
                raise OSError("away")

    sinks = {name: Ends(name) for name in ("first", "second")}  # the last one ends first
    outbox = Outbox(Mock(), sinks, Mock(), WorkerLocations())
    outbox.begin_run("t", DecisionRecord(), lambda: None)
    with caplog.at_level(logging.WARNING, "anchorbolt.checkpoint"):
        outbox.end_run()
    assert ended == ["second", "first"]
    assert "'second'" in caplog.text
