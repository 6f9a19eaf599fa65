"""Savepoints: whole, or none; restored and forked into any store, with any parallelism."""

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.errors import ConfigError, MigrationRefused, StateCorrupted
from anchorbolt.files import Folder, open_folder
from anchorbolt.migration_tools.savepoints.manifest import Manifest
from anchorbolt.migration_tools.savepoints.restoring import RestoreReport, restore_savepoint
from anchorbolt.migration_tools.savepoints.stored import Savepoint, discard, savepoints_in, verify
from anchorbolt.migration_tools.savepoints.taking import take_savepoint
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.migration_tools.conftest import ALL, MSGPACK, Killed, KilledAt
from tests.migration_tools.test_rescaling import LATER, WORDS, Job, Reminds


class Kept:
    """A place of savepoints, and the commands on it."""

    def __init__(self, place: Path) -> None:
        self.path = place
        self.place: Folder = open_folder(str(place))

    def take(self, job: Job, name: str = "one", **options: Any) -> Manifest:
        return take_savepoint(
            job.provider, job.name, job.name, open_folder(str(job.place)), self.place, name, **options
        )

    def savepoint(self, name: str = "one") -> Savepoint:
        return Savepoint.read(self.place, name)

    def restore(self, job: Job, name: str = "one", **options: Any) -> RestoreReport:
        """Restore a savepoint as the topology of `job`: a fork of it if the job has another name."""
        savepoint = self.savepoint(name).as_topology(job.name, job.name)
        return restore_savepoint(savepoint, job.provider, open_folder(str(job.place)), MSGPACK, **options)


@pytest.fixture
def job(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Job:
    return Job(sqlite_provider, name, tmp_path / "place")


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "savepoints")


@pytest.fixture
def other(name: str, tmp_path: Path) -> Job:
    """The same topology in another store."""
    return Job(SqliteStateProvider(str(tmp_path / "other")), name, tmp_path / "other-place")


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_a_savepoint_of_any_store_is_restored_into_another_one(
    store: StateProvider, name: str, kept: Kept, other: Job, tmp_path: Path
) -> None:
    job = Job(store, name, tmp_path / "place")
    job.run(WORDS, 2)
    manifest = kept.take(job)
    assert (manifest.txid, manifest.parallelism) == (len(WORDS) - 1, {"count": 2})
    assert verify(kept.savepoint()) == manifest.entries == len(set(WORDS)) + 1  # and the decision record
    assert job.run(LATER, 2) == Counter(WORDS + LATER), "the topology goes on"
    assert kept.restore(other, parallelism={"count": 3}, dry_run=True).parallelism == {"count": 3}
    report = kept.restore(other, parallelism={"count": 3})
    assert (report.txid, report.parallelism) == (len(WORDS), {"count": 3})
    assert kept.restore(other, parallelism={"count": 3}) == report, "again: it is there"
    assert other.run([], 3) == Counter(WORDS)
    assert other.run(LATER, 3) == Counter(WORDS + LATER)
    kept.take(other, "two")
    back = Job(store, f"{name}-back", tmp_path / "back")
    kept.restore(back, "two")
    assert back.run(LATER, 3) == Counter(WORDS + LATER + LATER)


def test_a_fork_goes_on_beside_its_topology(job: Job, kept: Kept, tmp_path: Path) -> None:
    job.run(WORDS, 2)
    kept.take(job)
    fork = Job(job.provider, f"{job.name}-fork", tmp_path / "fork")
    kept.restore(fork)
    assert kept.restore(fork).topology == fork.name
    assert fork.run(LATER, 2) == Counter(WORDS + LATER)
    assert job.run([], 2) == Counter(WORDS)
    assert kept.take(fork, "of-fork").topology == fork.name


def test_due_times_and_timers_are_restored(job: Job, kept: Kept, other: Job) -> None:
    words = sorted(set(WORDS))
    job.run(words, 2, Reminds())
    kept.take(job)
    kept.restore(other, parallelism={"count": 5})
    other.clock = job.clock
    job.clock.advance(6)
    assert other.run(["be"], 5, Reminds()) == {**dict.fromkeys(words, 1), "be": 2}
    assert sorted(value for (value,) in other.captured.tuples) == [word for word in words if word != "be"]
    job.clock.advance(6)
    assert other.run([], 5, Reminds()) == {"be": 2}


@pytest.mark.parametrize("number", range(1, 5))
def test_an_interrupted_savepoint_is_none_and_its_name_is_free(
    job: Job, kept: Kept, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    job.run(WORDS, 2)
    calls = 0

    def cut_off(call: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                raise Killed
            return call(*arguments)

        return wrapped

    for method in ("create", "replace"):
        monkeypatch.setattr(kept.place, method, cut_off(getattr(kept.place, method)))
    with pytest.raises(Killed):
        kept.take(job)
    assert savepoints_in(kept.place) == []
    with pytest.raises(ConfigError):
        kept.savepoint()
    kept.take(job)
    assert savepoints_in(kept.place) == ["one"]
    verify(kept.savepoint())


@pytest.mark.parametrize("parallelism", [{}, {"count": 3}])
@pytest.mark.timeout(300)
def test_a_restore_that_is_killed_anywhere_is_finished_by_the_same_call(
    job: Job, kept: Kept, tmp_path: Path, parallelism: dict[str, int]
) -> None:
    job.run(WORDS, 2)
    kept.take(job)
    finished = 0
    for number in range(1, 200):
        target = Job(SqliteStateProvider(str(tmp_path / f"store-{number}")), job.name, tmp_path / f"place-{number}")
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=bool(number % 2))
            with suppress(Killed):
                kept.restore(target, parallelism=parallelism)
            if killed.left > 0:
                break
        kept.restore(target, parallelism=parallelism)
        finished += 1
        assert target.run(LATER, parallelism.get("count", 2)) == Counter(WORDS + LATER)
    assert finished > 10


def test_a_restore_that_is_killed_while_it_takes_the_fence_is_finished(
    job: Job, kept: Kept, other: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.run(WORDS, 2)
    kept.take(job)

    claim = DecisionLog.claim_for_command

    def killed(log: DecisionLog) -> None:
        claim(log)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(DecisionLog, "claim_for_command", killed)
        with pytest.raises(Killed):
            kept.restore(other, parallelism={"count": 3})
    kept.restore(other, parallelism={"count": 3})
    assert other.run(LATER, 3) == Counter(WORDS + LATER)


def test_a_damaged_savepoint_is_never_restored(job: Job, kept: Kept, other: Job) -> None:
    job.run(WORDS, 2)
    kept.take(job)
    whole = kept.path.with_name("whole")
    shutil.copytree(kept.path, whole)
    files = [path.relative_to(kept.path) for path in kept.path.rglob("*") if path.is_file()]
    assert len(files) == 4
    for file in files:
        for damage in (b"", None, "flip"):
            shutil.rmtree(kept.path)
            shutil.copytree(whole, kept.path)
            path = kept.path / file
            content = bytearray(path.read_bytes())
            if damage is None:
                path.unlink()
            elif damage == "flip":
                content[len(content) // 2] ^= 1
                path.write_bytes(content)
            else:
                path.write_bytes(b"")
            refused = ConfigError if damage is None and file.name == "manifest.json" else StateCorrupted
            with pytest.raises(refused):
                verify(kept.savepoint())
            with pytest.raises((refused, MigrationRefused)):  # the latter if it is the decision record
                kept.restore(other)
            assert list(other.provider.namespaces()) == []
            assert not other.place.exists()


def test_a_refused_restore_has_written_nothing(
    job: Job, kept: Kept, other: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Savepoint, "source_files", lambda _: iter([("metadata", b"{}")]))
    job.run(WORDS, 2)
    kept.take(job)
    for dry_run in (True, False):
        with pytest.raises(MigrationRefused):
            kept.restore(other, parallelism={"cuont": 3}, dry_run=dry_run)
    assert read_topology(other.provider, job.name, job.name).heads == {}
    job.run(LATER, 2)
    job.place = other.place
    with pytest.raises(MigrationRefused):
        kept.restore(job, parallelism={"count": 3})
    assert not other.place.exists()


def test_what_cannot_be_saved_or_restored_is_refused(job: Job, kept: Kept, other: Job) -> None:
    with pytest.raises(MigrationRefused):
        kept.take(job)
    job.run(WORDS, 2)
    for name in ("", "../up", "a/b", ".hidden"):
        with pytest.raises(ConfigError):
            kept.take(job, name)
    kept.take(job)
    with pytest.raises(ConfigError):
        kept.take(job)
    with pytest.raises(MigrationRefused):
        kept.restore(job)  # its checkpoint location is in use
    other.run(LATER, 2)
    other.place = other.place.with_name("new-place")
    with pytest.raises(MigrationRefused):
        kept.restore(other)
    assert other.run([], 2) != Counter(WORDS)
    with pytest.raises(ConfigError):
        discard(open_folder(str(kept.path.parent)), "savepoints")
    discard(kept.place, "one")
    assert savepoints_in(kept.place) == []
