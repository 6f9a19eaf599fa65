"""Savepoints of topologies that run: the state after one wave, although no wave waits for it."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt import open_state
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.engine import LocalCluster, RunHandle, SparkCluster
from anchorbolt.engine.driver import live_savepoints
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.errors import MigrationRefused, StateCorrupted
from anchorbolt.files import Folder, open_folder
from anchorbolt.maintenance.live_savepoint import FOLDER, Answered, Asked, Progressed, SavepointFiles
from anchorbolt.migration_tools.savepoints import running as running_savepoints
from anchorbolt.migration_tools.savepoints.manifest import Manifest
from anchorbolt.migration_tools.savepoints.restoring import restore_savepoint
from anchorbolt.migration_tools.savepoints.stored import Savepoint, savepoints_in, verify
from anchorbolt.migration_tools.savepoints.taking import take_savepoint
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from tests.cli.command import wait_until
from tests.engine.jobs import StatefulBolt
from tests.engine.spark.conftest import spark as spark
from tests.migration_tools.conftest import ALL, MSGPACK, conf_of

_BASE = 3000  # keys before the savepoint
_PER_WAVE = 40


class CountsOrForgets(StatefulBolt):
    """Counts each key; a count of three is forgotten, so that entries go and come again."""

    def execute(self, tup: Tuple) -> None:
        key = tup["key"]
        count = self.state.get(key, 0) + 1
        if count == 3:
            self.state.delete(key)
        else:
            self.state.put(key, count)
        self.collector.ack(tup)


class Running:
    """A topology that runs, and is fed with random keys, wave by wave, until it is stopped."""

    def __init__(self, provider: StateProvider, name: str, place: Path) -> None:
        self.provider, self.name, self.place = provider, name, place
        self.checkpoint: Folder = open_folder(str(place))
        self.waves: list[list[int]] = [list(range(_BASE))]
        self.ends: dict[int, int] = {}  # by txid: how many of the waves have committed
        self._spout = FeederSpout(["key"], [[(key,) for key in self.waves[0]]])
        self._random = random.Random(1)

    @contextmanager
    def started(self, tasks: int = 2) -> Iterator[RunHandle]:
        builder = TopologyBuilder()
        builder.set_spout("in", self._spout)
        builder.set_bolt("count", CountsOrForgets(), tasks).fields_grouping("in", "key")
        settings: dict[str, Any] = {"topology.checkpoint.location": str(self.place), **conf_of(self.provider)}
        handle = LocalCluster().submit(
            builder.create_topology(self.name), settings, until_empty=False, on_wave=self._committed
        )
        try:
            yield handle
        finally:
            handle.stop(60)

    def take(self, kept: Folder, name: str = "one") -> Manifest:
        return take_savepoint(self.provider, self.name, self.name, self.checkpoint, kept, name)

    def state_after(self, txid: int) -> dict[int, int]:
        counts = Counter(key for wave in self.waves[: self.ends[txid]] for key in wave)
        return {key: count % 3 for key, count in counts.items() if count % 3}

    def _committed(self, report: WaveReport) -> None:
        self.ends[report.txid] = len(self.ends) + 1
        wave = [self._random.randrange(2 * _BASE) for _ in range(_PER_WAVE)]
        self.waves.append(wave)
        self._spout.feed([(key,) for key in wave])


@pytest.fixture
def kept(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "savepoints"))


def _restored(kept: Folder, running: Running, tmp_path: Path, tasks: int) -> dict[Any, Any]:
    """Restore into another store, and run the topology there."""
    name, other = "one", SqliteStateProvider(str(tmp_path / "other"))
    place = tmp_path / "other-place"
    savepoint = Savepoint.read(kept, name)
    verify(savepoint)
    restore_savepoint(savepoint, other, open_folder(str(place)), MSGPACK, parallelism={"count": tasks})
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["key"]))
    builder.set_bolt("count", CountsOrForgets(), tasks).fields_grouping("in", "key")
    settings: dict[str, Any] = {"topology.checkpoint.location": str(place), **conf_of(other)}
    handle = LocalCluster().submit(builder.create_topology(running.name), settings)
    assert handle.await_termination(60)
    return dict(handle.state_items("count"))


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_it_is_the_state_after_one_wave(store: StateProvider, name: str, kept: Folder, tmp_path: Path) -> None:
    running = Running(store, name, tmp_path / "place")
    with running.started():
        manifest = running.take(kept)
        waves_before = max(running.ends)
        second = running.take(kept, "two")
    assert waves_before <= second.txid
    assert _restored(kept, running, tmp_path, 3) == running.state_after(manifest.txid)
    saved = Savepoint.read(kept, "two")
    assert verify(saved) >= len(running.state_after(second.txid))


def test_a_command_that_is_killed_is_forgotten(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_savepoints, "PATIENCE_S", 2.0)
    running = Running(sqlite_provider, name, tmp_path / "place")
    files = SavepointFiles(running.checkpoint)
    with running.started():
        files.ask(Asked("0" * 32))
        wait_until(
            lambda: (answer := files.answered()) is not None and answer.progressed is Progressed.KEEPS, "the driver"
        )
        wait_until(lambda: bool(list(running.checkpoint.names(f"{FOLDER}/{'0' * 32}/changes"))), "changes")
        wait_until(lambda: not list(running.checkpoint.names(f"{FOLDER}/{'0' * 32}")), "the end")
        files.withdraw()
        running.take(kept)
    assert savepoints_in(kept) == ["one"]


def test_a_second_command_is_refused(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_savepoints, "BEAT_S", 0.5)
    running = Running(sqlite_provider, name, tmp_path / "place")
    reading, refused = threading.Event(), threading.Event()

    def read(*arguments: Any) -> None:
        reading.set()
        assert refused.wait(60)

    monkeypatch.setattr(running_savepoints, "_read", read)
    with running.started(), ThreadPoolExecutor(1) as threads:
        first = threads.submit(running.take, kept)
        assert reading.wait(60)
        with pytest.raises(MigrationRefused):
            running.take(kept, "two")
        refused.set()
        first.result(60)
    assert savepoints_in(kept) == ["one"]


def test_changes_that_could_not_be_written_are_missed_and_the_run_goes_on(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(*arguments: Any) -> None:
        raise OSError("no space")

    running = Running(sqlite_provider, name, tmp_path / "place")
    with running.started() as handle:
        with monkeypatch.context() as patched:
            patched.setattr(SavepointFiles, "keep", keep)
            with pytest.raises(StateCorrupted):
                running.take(kept)
        assert handle.failure is None
        assert savepoints_in(kept) == []
        running.take(kept)
    assert _restored(kept, running, tmp_path, 2)


def test_a_run_that_ends_meanwhile_is_said(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(sqlite_provider, name, tmp_path / "place")
    with running.started() as handle:
        monkeypatch.setattr(running_savepoints, "_read", lambda *_: handle.stop(60))
        with pytest.raises(MigrationRefused):
            running.take(kept)
    assert savepoints_in(kept) == []
    assert list(running.checkpoint.names(FOLDER)) == []
    assert running.take(kept).txid == max(running.ends)


def test_another_driver_does_not_know_the_waves_before_it(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, before = Running(sqlite_provider, name, tmp_path / "place"), SavepointFiles.answered

    def answered(files: SavepointFiles) -> Answered | None:
        """As if the driver were killed once it keeps changes, and its successor answered."""
        answer = before(files)
        is_chosen = answer is not None and answer.progressed is Progressed.CHOSEN
        return replace(answer, generation=answer.generation + 1) if is_chosen and answer is not None else answer

    monkeypatch.setattr(SavepointFiles, "answered", answered)
    with running.started(), pytest.raises(MigrationRefused):
        running.take(kept)
    assert savepoints_in(kept) == []


def test_a_killed_run_does_not_answer(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_savepoints, "_FIRST_ANSWER_S", 1.0)
    running = Running(sqlite_provider, name, tmp_path / "place")
    with running.started():
        wait_until(lambda: bool(running.ends), "a wave")
    with closing(sqlite_provider.open(record_namespace(name))) as storage:
        DecisionLog(storage).claim()
    with pytest.raises(MigrationRefused):
        running.take(kept)
    assert take_savepoint(sqlite_provider, name, name, running.checkpoint, kept, "one", take_fence=True).txid == max(
        running.ends
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_on_spark_it_has_the_tuples_of_all_waves_until_it_was_taken(
    sqlite_provider: SqliteStateProvider, name: str, kept: Folder, tmp_path: Path, spark: SparkSession, workers: int
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", GeneratorSpout(["key"], lambda number: (number * 7919 % 500,)))
    builder.set_bolt("count", StatefulBolt(), 2).fields_grouping("in", "key")
    place = tmp_path / "place"
    settings = {"topology.checkpoint.location": str(place), **conf_of(sqlite_provider)}
    if workers:
        settings["topology.workers"] = workers
    tuples: dict[int, int] = {}

    def committed(report: WaveReport) -> None:
        tuples[report.txid] = report.tuples_in.get("count", 0)

    handle = SparkCluster(spark).submit(builder.create_topology(name), settings, until_empty=False, on_wave=committed)
    wait_until(lambda: bool(tuples), "a wave")
    manifest = take_savepoint(sqlite_provider, name, name, open_folder(str(place)), kept, "one")
    assert handle.stop(120)
    other = SqliteStateProvider(str(tmp_path / "other"))
    restore_savepoint(Savepoint.read(kept, "one"), other, open_folder(str(tmp_path / "other-place")), MSGPACK)
    with open_state(name, {"topology.checkpoint.location": str(tmp_path / "other-place"), **conf_of(other)}) as state:
        total = sum(count for _, count in state.items("count"))
    assert total == sum(number for txid, number in tuples.items() if txid <= manifest.txid)
    assert len(tuples) > sum(txid <= manifest.txid for txid in tuples) > 1
