"""Topologies that may not be copied: one that is alive, in a wave, decided, missing; and a target that is taken."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.ports import NoRetry
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.driver.reports import WaveReport
from anchorbolt.errors import ConfigError, Fenced, MigrationRefused, StateRegressed
from anchorbolt.migration_tools.copy.copying import copy_namespace, copy_topology
from anchorbolt.migration_tools.inspect.topology_snapshot import NullDecisionCopy, read_topology
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import NamespaceHead
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing.conformance.base import committed, staged
from tests.engine.jobs import word_count
from tests.migration_tools.conftest import TIMEOUT_S, RunWords, conf_of
from tests.migration_tools.copy.copies import FIRST, LATER, contents


class TestARunThatIsAlive:
    def test_is_noticed_by_its_fence_even_if_it_is_idle(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path
    ) -> None:
        spout = FeederSpout(["sentence"], [[("a b",)]])
        conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint"), **conf_of(source)}
        waves: Queue[WaveReport] = Queue()
        topology = word_count(spout, name=name)
        handle = LocalCluster().submit(topology, conf, until_empty=False, on_wave=waves.put)
        waves.get(timeout=TIMEOUT_S)  # from here on it waits for input
        with pytest.raises(MigrationRefused, match="holds the fence"):
            copy_topology(source, target, name, name)
        with pytest.raises(MigrationRefused):
            copy_namespace(source, target, f"{name}:count-0")
        assert list(target.namespaces()) == []
        handle.stop()
        copy_topology(source, target, name, name)
        assert contents(target, name) == contents(source, name)

    def test_ends_fenced_where_its_fence_is_taken(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, tmp_path: Path, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        spout = FeederSpout(["sentence"])
        conf = {"topology.checkpoint.location": str(tmp_path / "checkpoint"), **conf_of(source)}
        handle = LocalCluster().submit(word_count(spout, name=name), conf, until_empty=False)
        copy_topology(source, target, name, name, take_fence=True)
        before = contents(source, name)
        spout.feed([("too late",)])
        with pytest.raises(Fenced):
            handle.await_termination(TIMEOUT_S)
        after = contents(source, name)
        assert after == before
        assert contents(target, name) == after

    def test_that_commits_meanwhile_is_noticed_and_no_record_is_written(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)

        class Meanwhile:
            def begin(self, what: str, total: int | None) -> None:
                if what == f"comparing {name}:count-1":
                    run_words(source, *LATER)

            def advance(self, entries: int) -> None: ...

        with pytest.raises(MigrationRefused, match="was written to"):
            copy_topology(source, target, name, name, progress=Meanwhile())
        assert read_topology(target, name, name).stored is None
        with pytest.raises(MigrationRefused, match="other data"):
            copy_topology(source, target, name, name)
        with pytest.raises(StateRegressed):
            run_words(target)


class TestASource:
    def test_that_was_killed_in_a_wave_is_refused_until_it_was_started_again(
        self,
        source: SqliteStateProvider,
        target: SqliteStateProvider,
        name: str,
        run_words: RunWords,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(DecisionLog, "release", lambda self: None)  # as after a kill
            run_words(source, *FIRST)
        with closing(source.open(f"{name}:count-0")) as storage:
            head = storage.head()
            staged(storage, [(b"x", b"y")], fence=head.fence, txid=2, base=head.committed, codec=head.codec)
        with pytest.raises(MigrationRefused, match="holds the fence"):
            copy_topology(source, target, name, name)
        run_words(source)
        copy_topology(source, target, name, name)
        assert contents(target, name) == contents(source, name)

    def test_with_a_decided_transaction_is_refused_even_if_the_fence_is_taken(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        with closing(source.open(f"{name}:$checkpointspout-0")) as storage:
            log = DecisionLog(storage, NullDecisionCopy(), NoRetry())
            fence = log.claim()
            record, _ = log.load()
            assert record is not None
            log.mark_committed(fence, replace(record, state=CheckpointState(record.txid, Phase.COMMITTING)))
        with pytest.raises(MigrationRefused, match=r"a transaction of .* is open"):
            copy_topology(source, target, name, name, take_fence=True)

    def test_without_such_a_topology_is_refused(self, source: SqliteStateProvider, target: SqliteStateProvider) -> None:
        with pytest.raises(MigrationRefused, match="no decision record of topology 'none'"):
            copy_topology(source, target, "none", "none")

    def test_that_is_the_target_is_refused(self, source: SqliteStateProvider, name: str) -> None:
        with pytest.raises(ConfigError, match="the same"):
            copy_topology(source, SqliteStateProvider(source.directory), name, name)


class TestATarget:
    def test_that_has_a_run_of_its_own_is_refused_and_not_fenced(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        run_words(target, "other", **{"topology.checkpoint.location": f"{target.directory}/checkpoint"})
        before = read_topology(target, name, name)
        with pytest.raises(MigrationRefused):
            copy_topology(source, target, name, name)
        assert read_topology(target, name, name) == before

    def test_that_holds_something_else_under_a_name_is_refused(
        self, source: SqliteStateProvider, target: SqliteStateProvider, name: str, run_words: RunWords
    ) -> None:
        run_words(source, *FIRST)
        with closing(target.open(f"{name}:count-1")) as storage:
            committed(storage, [(b"a", b"b")])
        with pytest.raises(MigrationRefused, match=f"other data in {name}:count-1"):
            copy_topology(source, target, name, name)
        with closing(target.open(f"{name}:$checkpointspout-0")) as storage:
            assert storage.head() == NamespaceHead()
