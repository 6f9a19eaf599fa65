"""The state of a stateful bolt given to another id: whole, or not at all."""

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import AnchorboltError, MigrationRefused, TopologyError
from anchorbolt.migration_tools.renaming import RenameReport, rename_state
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import StatefulBolt
from tests.migration_tools.conftest import ALL, Killed, KilledAt, conf_of, raise_killed

WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]
LATER = ["to", "do", "is", "to", "be"]


def run(provider: StateProvider, name: str, bolt: str, words: list[str], place: Path, **conf: Any) -> dict[Any, Any]:
    """Count words, which the source has beside those of earlier runs; return the counts."""
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["word"], [[(word,)] for word in words]))
    builder.set_bolt(bolt, StatefulBolt(), parallelism=2).fields_grouping("in", "word")
    given = {"topology.checkpoint.location": str(place), **conf_of(provider), **conf}
    handle = LocalCluster().submit(builder.create_topology(name), given)
    assert handle.await_termination(60)
    return dict(handle.state_items(bolt))


def rename(provider: StateProvider, name: str, *ids: str, **options: Any) -> RenameReport:
    return rename_state(provider, name, name, *(ids or ("count", "counter")), **options)


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_renamed_bolt_continues_with_its_state_and_so_does_one_that_is_renamed_back(
    store: StateProvider, name: str, tmp_path: Path
) -> None:
    run(store, name, "count", WORDS, tmp_path)
    with pytest.raises(TopologyError) as refused:
        run(store, name, "counter", LATER, tmp_path)
    assert refused.value.component == "count"
    planned = rename(store, name, dry_run=True)
    assert run(store, name, "count", [], tmp_path) == Counter(WORDS)
    report = rename(store, name)
    assert (report.namespaces, report.entries) == (planned.namespaces, len(set(WORDS)))
    assert run(store, name, "counter", LATER, tmp_path) == Counter(WORDS + LATER)
    rename(store, name, "counter", "count")
    assert run(store, name, "count", LATER, tmp_path) == Counter(WORDS + LATER + LATER)


def test_a_bolt_that_takes_the_old_id_again_begins_without_state(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    rename(sqlite_provider, name)
    accepted = {"topology.state.accept.loss": True}
    assert run(sqlite_provider, name, "count", LATER, tmp_path, **accepted) == Counter(LATER)
    assert run(sqlite_provider, name, "count", [], tmp_path) == Counter(LATER)  # it was accepted for good


def test_what_cannot_be_renamed_is_refused(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> None:
    with pytest.raises(MigrationRefused):
        rename(sqlite_provider, name)
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    for ids in (("other", "counter"), ("count", "count"), ("__acker", "counter")):
        with pytest.raises(MigrationRefused):
            rename(sqlite_provider, name, *ids)
    with pytest.raises(TopologyError):
        rename(sqlite_provider, name, "count", "not an id")
    assert run(sqlite_provider, name, "count", [], tmp_path) == Counter(WORDS)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.timeout(300)
def test_a_rename_that_is_killed_anywhere_is_whole_or_can_be_repeated(after: bool, name: str, tmp_path: Path) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    run(whole, name, "count", WORDS, tmp_path / "place")
    repeated = rolled_forward = 0
    for number in range(1, 100):
        provider = SqliteStateProvider(str(tmp_path / f"store-{number}"))
        shutil.copytree(whole.directory, provider.directory)
        place = tmp_path / f"place-{number}"
        shutil.copytree(tmp_path / "place", place)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=after)
            with suppress(Killed):
                rename(provider, name)
            if killed.left > 0:
                break
        try:
            rename(provider, name)
            repeated += 1
        except MigrationRefused:  # it is decided, and a start commits it
            rolled_forward += 1
        assert run(provider, name, "counter", LATER, place) == Counter(WORDS + LATER)
    assert repeated > 5
    assert rolled_forward > 3


def test_a_run_on_a_rename_that_was_killed_before_its_decision_goes_on_as_before(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("anchorbolt.checkpoint.decision_log.DecisionLog.decide", raise_killed)
        with pytest.raises(Killed):
            rename(sqlite_provider, name)
    assert run(sqlite_provider, name, "count", LATER, tmp_path) == Counter(WORDS + LATER)
    rename(sqlite_provider, name)
    assert run(sqlite_provider, name, "counter", [], tmp_path) == Counter(WORDS + LATER)


class Sum(StatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state.put(tup[1], self.state.get(tup[1], 0) + 1)
        self.collector.ack(tup)


class Words(BaseBatchBolt):
    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.collector, self.id = collector, id

    def execute(self, tup: Any) -> None:
        self.collector.emit((self.id, tup[1]))

    def finish_batch(self) -> None:
        pass

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "word")


def test_the_batches_of_a_transactional_topology_continue_behind_a_rename(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    conf = {"topology.checkpoint.location": str(tmp_path), **conf_of(sqlite_provider)}
    done: list[int] = []

    def count(bolt: str, batches: int) -> dict[Any, Any]:
        spout = MemoryTransactionalSpout({0: [(word,) for word in WORDS]}, ["word"], 2)
        builder = TransactionalTopologyBuilder(name, "in", spout)
        builder.set_bolt("words", Words()).shuffle_grouping("in")
        builder.set_committer_bolt(bolt, Sum(), 2).fields_grouping("words", "word")

        def stop(report: Any) -> None:
            done.append(report.txid)
            if len(done) == batches:
                handle.stop()

        handle = LocalCluster().submit(builder.build_topology(), conf, on_wave=stop)
        assert handle.await_termination(60)
        return dict(handle.state_items(bolt))

    assert count("sum", 2) == Counter(WORDS[:4])
    rename(sqlite_provider, name, "sum", "total")
    assert count("total", 100) == Counter(WORDS)
    assert done == [1, 2, 4, 5, 6]


def test_a_rename_after_a_run_that_holds_the_fence_has_to_take_it(
    sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path
) -> None:
    run(sqlite_provider, name, "count", WORDS, tmp_path)
    with pytest.MonkeyPatch.context() as patched:  # as after a kill
        patched.setattr("anchorbolt.checkpoint.decision_log.DecisionLog.release", lambda _: None)
        run(sqlite_provider, name, "count", [], tmp_path)
    with pytest.raises(AnchorboltError):
        rename(sqlite_provider, name)
    rename(sqlite_provider, name, take_fence=True)
    assert run(sqlite_provider, name, "counter", [], tmp_path) == Counter(WORDS)
