"""SQLite's write-ahead log: whole files after a clean end, and an older file put beside a newer log is noticed."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.errors import StateCorrupted, StateRegressed
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.state_backends.sqlite import write_ahead_log as sqlite_log
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries, new_attempt, stage

NAMESPACE = "words:count-0"
FILE = "words@count-0.sqlite"
MANY = {b"%06d" % number: b"old" * 10 for number in range(3000)}


def files(provider: SqliteStateProvider) -> dict[str, bytes]:
    """The files of a directory, without the index of the log, which SQLite makes anew."""
    paths = Path(provider.directory).iterdir()
    return {path.name: path.read_bytes() for path in paths if not path.name.endswith("-shm")}


def killed(provider: SqliteStateProvider, into: Path) -> SqliteStateProvider:
    """Return the files as a process leaves them that is killed now, while storages are open."""
    shutil.copytree(provider.directory, into, ignore=shutil.ignore_patterns("*-shm"))
    return SqliteStateProvider(str(into))


def test_after_a_clean_end_everything_is_in_the_file_even_if_others_are_still_open(
    sqlite_provider: SqliteStateProvider,
) -> None:
    with closing(sqlite_provider.open(NAMESPACE)) as worker:
        stage(worker, [(b"a", b"0")])
        with closing(sqlite_provider.open(NAMESPACE)) as driver:
            committed(driver, list(MANY.items()))
        left = files(sqlite_provider)
        assert left.get(f"{FILE}-wal", b"") == b""
        assert len(left[FILE]) > 100_000


def test_an_older_file_beside_the_log_of_a_killed_run_is_refused_and_left_as_it_is(
    sqlite_provider: SqliteStateProvider, tmp_path: Path
) -> None:
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        committed(storage, list(MANY.items()))
    older = files(sqlite_provider)[FILE]
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        committed(storage, [(key, b"new" * 10) for key in MANY], txid=1, base=0)
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        committed(storage, [(b"000001", b"two" * 10)], txid=2, base=1)
        provider = killed(sqlite_provider, tmp_path / "killed")

    file = Path(provider.directory, FILE)
    newer = file.read_bytes()
    file.write_bytes(older)
    mixed = files(provider)
    check_refused(
        provider,
        lambda storage: storage.head(),
        lambda storage: storage.get_many([b"000001"]),
        lambda storage: next(storage.scan()),
        lambda storage: storage.count(),
    )
    assert list(provider.namespaces()) == [NAMESPACE]
    assert files(provider) == mixed

    file.write_bytes(newer)
    with closing(provider.open(NAMESPACE)) as storage:
        assert entries(storage) == {**dict.fromkeys(MANY, b"new" * 10), b"000001": b"two" * 10}

    file.write_bytes(older)
    fence = Fence(9, 0)
    check_refused(
        provider,
        lambda storage: storage.claim(),
        lambda storage: storage.raise_fence(fence),
        lambda storage: stage(storage, [(b"a", b"1")], txid=3, base=2, fence=fence),
        lambda storage: storage.write(fence, {b"a": b"1"}, CODEC),
        lambda storage: storage.commit(fence, 3, new_attempt()),
        lambda storage: storage.rollback(fence),
        lambda storage: storage.head(),
    )


def check_refused(provider: SqliteStateProvider, *calls: Callable[[StateStorage], object]) -> None:
    for call in calls:
        with closing(provider.open(NAMESPACE)) as storage, pytest.raises(StateRegressed) as error:
            call(storage)
        assert error.value.namespace == NAMESPACE
        assert (error.value.expected or "").startswith("log ")


STEPS = st.sampled_from(["few", "many", "stage", "roll back", "restart", "look", "kill"])


@pytest.mark.slow
@given(st.lists(STEPS, min_size=3, max_size=14))
@settings(max_examples=60, deadline=None)
def test_a_mixture_of_two_moments_is_never_taken_for_the_state(steps: list[str]) -> None:
    """Whatever happened, the file of an earlier moment beside the log of a killed run is refused, or visibly old."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(sqlite_log, "_LONGEST", 100_000)
        provider = SqliteStateProvider(f"{folder}/state")
        storage = provider.open(NAMESPACE)
        txid, fence, truth = -1, FIRST, dict[bytes, bytes]()
        earlier: list[tuple[int, bytes]] = []
        for number, step in enumerate(steps):
            if step in ("few", "many"):
                keys = list(MANY)[: 2 if step == "few" else 1000]
                txid += 1
                items = [(key, b"%06d" % txid) for key in keys]
                committed(storage, items, txid=txid, base=txid - 1, fence=fence)
                truth.update(items)
            elif step == "stage":
                stage(storage, [(b"x", b"1")], txid=txid + 1, base=txid, fence=fence)
            elif step == "roll back":
                storage.rollback(fence)
            elif step == "restart":
                storage.close()
                fence = storage.claim()
                storage.raise_fence(fence)
            elif step == "look":
                with closing(provider.open(NAMESPACE)) as reader:
                    reader.head()
            elif txid >= 0:
                image = killed(provider, Path(folder, f"killed-{number}"))
                for old_txid, old in earlier:
                    _look_at_mixture(image, old_txid, old, txid, truth)
            if txid >= 0:
                earlier.append((txid, files(provider)[FILE]))
        storage.close()


def _look_at_mixture(
    image: SqliteStateProvider, old_txid: int, old: bytes, txid: int, truth: dict[bytes, bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(image.directory, folder, dirs_exist_ok=True)
        Path(folder, FILE).write_bytes(old)
        with closing(SqliteStateProvider(folder).open(NAMESPACE)) as storage:
            try:
                head = storage.head()
            except (StateRegressed, StateCorrupted):
                return
            if head.committed == txid:
                assert entries(storage) == truth, f"the file of txid {old_txid} beside the log of txid {txid}"
