"""Topologies that may not be copied: one that is alive, in a wave, decided, missing; and a target that is taken."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.errors import ConfigError, Fenced, MigrationRefused, StateRegressed
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import copy_namespace, copy_topology
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import Fence, NamespaceHead
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage
from anchorbolt.testing.conformance.base import committed, staged
from tests.migration_tools.conftest import TIMEOUT_S, StartWords
from tests.migration_tools.copy.conftest import LATER, Job


class TestARunThatIsAlive:
    def test_is_noticed_by_its_fence_even_if_it_is_idle(self, job: Job, start_words: StartWords) -> None:
        handle = start_words(job.source, FeederSpout(["sentence"]))
        assert job.refuses("holds the fence")
        with pytest.raises(MigrationRefused):
            copy_namespace(job.source, job.target, f"{job.name}:count-0")
        assert list(job.target.namespaces()) == []
        handle.stop()
        job.copy()
        assert job.is_copied()

    def test_ends_fenced_where_its_fence_is_taken(self, job: Job, start_words: StartWords) -> None:
        spout = FeederSpout(["sentence"])
        handle = start_words(job.source, spout)
        job.copy(take_fence=True)
        before = job.contents(job.source)
        spout.feed([("too late",)])
        with pytest.raises(Fenced):
            handle.await_termination(TIMEOUT_S)
        assert job.contents(job.source) == before
        assert job.is_copied()

    def test_that_decides_before_its_fence_is_taken_is_noticed_at_a_target_with_an_earlier_copy(
        self, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job.copy()

        def late_claim(storage: SqliteStateStorage, seq: int) -> Fence:
            monkeypatch.setattr(SqliteStateStorage, "claim", claim)
            fence = claim(storage, seq)
            job.run(job.source, *LATER)
            return fence

        claim = SqliteStateStorage.claim
        monkeypatch.setattr(SqliteStateStorage, "claim", late_claim)
        before = job.contents(job.target)
        assert job.refuses("other data", take_fence=True)
        assert job.contents(job.target) == before

    def test_that_commits_meanwhile_is_noticed_and_no_record_is_written(self, job: Job) -> None:
        class Meanwhile(Progress):
            def begin(self, what: str, total: int | None) -> None:
                if what == f"comparing {job.name}:count-1":
                    job.run(job.source, *LATER)

        assert job.refuses("was written to", progress=Meanwhile())
        assert job.read(job.target).stored is None
        assert job.refuses("other data")
        with pytest.raises(StateRegressed):
            job.run(job.target)


class TestASource:
    def test_that_was_killed_in_a_wave_is_refused_until_it_was_started_again(
        self, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(DecisionLog, "release", lambda self: None)  # as after a kill
            job.run(job.source)
        with closing(job.source.open(f"{job.name}:count-0")) as storage:
            head = storage.head()
            staged(storage, [(b"x", b"y")], fence=head.fence, txid=2, base=head.committed, codec=head.codec)
        assert job.refuses("holds the fence")
        job.run(job.source)
        job.copy()
        assert job.is_copied()

    def test_with_a_decided_transaction_is_refused_even_if_the_fence_is_taken(self, job: Job) -> None:
        with closing(job.source.open(f"{job.name}:$checkpointspout-0")) as storage:
            log = DecisionLog(storage)
            log.claim()
            record, _ = log.load()
            assert record is not None
            log.write(replace(record, state=CheckpointState(record.txid, Phase.COMMITTING)))
        assert job.refuses(r"a transaction of .* is open", take_fence=True)

    def test_without_such_a_topology_is_refused(self, source: SqliteStateProvider, target: SqliteStateProvider) -> None:
        with pytest.raises(MigrationRefused, match="no decision record of topology 'none'"):
            copy_topology(source, target, "none", "none")

    def test_that_is_the_target_is_refused(self, source: SqliteStateProvider, name: str) -> None:
        with pytest.raises(ConfigError, match="the same"):
            copy_topology(source, SqliteStateProvider(source.directory), name, name)


class TestATarget:
    def test_that_has_a_run_of_its_own_is_refused_and_not_fenced(self, job: Job, tmp_path: Path) -> None:
        job.run(job.target, "other", **{"topology.checkpoint.location": str(tmp_path / "other")})
        before = job.read(job.target)
        assert job.refuses()
        assert job.read(job.target) == before

    def test_that_holds_something_else_under_a_name_is_refused(self, job: Job) -> None:
        with closing(job.target.open(f"{job.name}:count-1")) as storage:
            committed(storage, [(b"a", b"b")])
        assert job.refuses(f"other data in {job.name}:count-1")
        with closing(job.target.open(f"{job.name}:$checkpointspout-0")) as storage:
            assert storage.head() == NamespaceHead()
