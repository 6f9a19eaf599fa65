"""SQLite: its files, and what happens when they are cut off, damaged, locked, changed by others, or out of room."""

import pickle
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.errors import ConfigError, StateCorrupted, StateRegressed, StateUnavailable
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateStorage
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.state_backends.sqlite.database_file import SqliteFile
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries, stage, staged
from tests.state_backends.processes import claim_as_nobody, exit_code, kill_within_commit, run, stage_with_small_files

NAMESPACE = "words:count-0"


@pytest.fixture
def file(sqlite_provider: SqliteStateProvider) -> Path:
    """The file of the namespace, after the first write."""
    return Path(sqlite_provider.directory, "words@count-0.sqlite")


@pytest.fixture
def storage(sqlite_provider: SqliteStateProvider) -> Iterator[StateStorage]:
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        yield storage


def test_a_namespace_is_one_file_that_the_first_write_makes_and_other_files_are_no_namespaces(
    sqlite_provider: SqliteStateProvider, storage: StateStorage, file: Path
) -> None:
    directory = Path(sqlite_provider.directory)
    storage.head()
    storage.get_many([b"a"])
    assert not directory.exists()
    storage.claim()
    storage.close()
    assert list(directory.iterdir()) == [file]
    (directory / "empty@a-0.sqlite").touch()
    (directory / "notes.txt").write_text("nothing")
    (directory / "a@b.sqlite-wal").touch()
    assert list(sqlite_provider.namespaces()) == [NAMESPACE]


def test_a_relative_directory_is_that_of_the_process_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    provider = SqliteStateProvider("state")
    monkeypatch.chdir("/")
    copy = pickle.loads(pickle.dumps(provider))  # noqa: S301 (our own bytes)
    assert copy.directory == str(tmp_path / "state")
    assert str(tmp_path / "state") in provider.describe()


def test_what_was_sealed_and_committed_is_on_the_disk_before_the_call_returns(storage: StateStorage) -> None:
    def synchronous() -> int:
        connection = storage._file._connection  # type: ignore[attr-defined]
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    attempt, seal = stage(storage, [(b"a", b"1")])
    normal, full = 1, 2
    assert synchronous() == normal
    storage.seal(FIRST, attempt, seal)
    assert synchronous() == full
    stage(storage, [(b"a", b"1")])
    storage.commit(FIRST, 0, attempt)
    assert synchronous() == full


@pytest.mark.parametrize("instructions", [300, 3_000, 30_000, 60_000, 90_000])
def test_a_process_killed_within_a_commit_leaves_it_to_be_done_again(
    sqlite_provider: SqliteStateProvider, storage: StateStorage, instructions: int
) -> None:
    before = {b"%d" % number: b"old" for number in range(5_000)}
    committed(storage, list(before.items()))
    updates = {b"%d" % number: b"new" for number in range(2_500, 12_000)}
    attempt = staged(storage, list(updates.items()), txid=1, base=0)
    storage.close()

    assert exit_code(kill_within_commit, sqlite_provider, NAMESPACE, attempt, instructions) == -signal.SIGKILL

    assert storage.head().committed == 0
    assert entries(storage) == before
    storage.commit(Fence(2, 0), 1, attempt)
    assert entries(storage) == {**before, **updates}


def test_a_file_whose_first_write_was_killed_is_read_as_empty(
    sqlite_provider: SqliteStateProvider, file: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed.sqlite"
    with closing(sqlite3.connect(killed, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size=1")  # so that the journal is on the disk before the commit
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE entries (value)")
        connection.executemany("INSERT INTO entries VALUES (zeroblob(4000))", [()] * 100)
        file.parent.mkdir()
        shutil.copy(killed, file)
        shutil.copy(f"{killed}-journal", f"{file}-journal")
    with closing(sqlite_provider.open(NAMESPACE)) as storage:
        assert storage.head() == NamespaceHead()


def test_rows_of_the_index_by_time_are_apart_and_seen_by_everyone(
    sqlite_provider: SqliteStateProvider, storage: StateStorage, file: Path
) -> None:
    index = [INDEX_TAG + letter + b"x" for letter in (b"b", b"c", b"d")]
    others = [b"a", INDEX_TAG + b"a", INDEX_TAG + b"e", INDEX_TAG + b"t", b"\xff"]
    committed(storage, [(key, b"1") for key in others])
    with closing(sqlite_provider.open(NAMESPACE)) as reader:
        assert entries(reader) == dict.fromkeys(others, b"1")

        attempt = staged(storage, [(key, b"2") for key in (*index, b"a")], [(b"b", b"3")], txid=1, base=0)
        updated = {**dict.fromkeys(others, b"1"), **dict.fromkeys(index, b"2"), b"a": b"2", b"b": b"3"}
        seen = [entry for page in reader.scan(attempt, page_size=2) for entry in page]
        assert seen == sorted(updated.items())
        assert reader.get_many(list(updated), attempt) == list(updated.values())
        assert table_names(file).isdisjoint({"entries_by_time"}), "a namespace without an index has no table for it"

        storage.commit(FIRST, 1, attempt)
        assert [entry for page in reader.scan(page_size=2) for entry in page] == sorted(updated.items())
        assert reader.get_many(list(updated)) == list(updated.values())
        assert reader.count() == len(updated)
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("SELECT key FROM entries_by_time ORDER BY key").fetchall() == [
                (key,) for key in index
            ]

        attempt = staged(storage, [(index[0], None), (index[1], b"4"), (b"a", None)], txid=2, base=1)
        updated[index[1]] = b"4"
        del updated[index[0]], updated[b"a"]
        assert [entry for page in reader.scan(attempt, page_size=3) for entry in page] == sorted(updated.items())
        storage.commit(FIRST, 2, attempt)
        assert entries(reader) == updated
    storage.close()
    execute(file, "DELETE FROM entries_by_time")
    with pytest.raises(StateRegressed):
        storage.head()


def table_names(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_a_file_that_is_no_database_is_corrupted(storage: StateStorage, file: Path) -> None:
    committed(storage, [(b"a", b"1")])
    storage.close()
    file.write_bytes(b"garbage" * 1000)
    for call in (storage.head, storage.claim, lambda: storage.get_many([b"a"])):
        with pytest.raises(StateCorrupted, match=str(file)) as error:
            call()
        assert error.value.namespace == NAMESPACE
    assert file.read_bytes() == b"garbage" * 1000


def test_damaged_pages_are_reported_and_do_not_reach_the_reader(storage: StateStorage, file: Path) -> None:
    committed(storage, [(b"%d" % number, b"v" * 100) for number in range(2_000)])
    storage.close()
    content = bytearray(file.read_bytes())
    for page in range(8, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(content)
    with pytest.raises(StateCorrupted):
        entries(storage)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("UPDATE metadata SET generation = 'x'", "metadata"),
        ("DELETE FROM metadata", "holds the state of None"),
        ("UPDATE metadata SET namespace = 'other:b-0'", "other:b-0"),
        ("DROP TABLE entries", "no such table"),
        ("UPDATE attempts SET slices = 'x'", "attempts"),
        ("UPDATE slices SET packed = x'c0'", "damaged"),
        ("DELETE FROM slices WHERE number = 0", "slice 0"),
        ("DELETE FROM slices WHERE number = 1", "slice 1"),
        ("PRAGMA user_version = 99", "99"),
        ("PRAGMA user_version = 0", "not one of Anchorbolt's"),
    ],
)
def test_damaged_bookkeeping_stops_the_commit_before_anything_changes(
    storage: StateStorage, file: Path, damage: str, complaint: str
) -> None:
    committed(storage, [(b"a", b"1")])
    attempt = staged(storage, [(b"a", b"2")], [(b"b", b"2")], txid=1, base=0)
    storage.close()
    execute(file, damage)
    kept = dump(file)
    with pytest.raises(StateCorrupted, match=complaint):
        storage.commit(FIRST, 1, attempt)
    storage.close()
    assert dump(file) == kept


def execute(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


def dump(file: Path) -> list[str]:
    """Everything in the file but the number of its logs, which counts up before a write begins."""
    with closing(sqlite3.connect(file)) as connection:
        return [line for line in connection.iterdump() if not line.startswith('INSERT INTO "logs"')]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM entries WHERE key = x'61'", 2),
        ("DELETE FROM entries", 0),
        ("INSERT INTO entries VALUES (x'7a', x'31')", 4),
    ],
)
def test_a_number_of_entries_that_another_program_changed_is_refused_by_the_next_head(
    sqlite_provider: SqliteStateProvider, storage: StateStorage, file: Path, statement: str, found: int, is_killed: bool
) -> None:
    committed(storage, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    if is_killed:  # then the next driver counts, even if it runs no wave
        storage = sqlite_provider.open(NAMESPACE)
        storage.raise_fence(Fence(1, 1))
    storage.close()
    execute(file, statement)
    with pytest.raises(StateRegressed) as noticed:
        storage.head()
    assert (noticed.value.expected, noticed.value.found) == ("3 entries", f"{found} entries")


def test_the_count_of_a_clean_end_is_right_and_a_killed_one_leaves_none(
    sqlite_provider: SqliteStateProvider, storage: StateStorage
) -> None:
    committed(storage, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    storage.close()
    with closing(sqlite_provider.open(NAMESPACE)) as killed:
        committed(killed, [(b"b", None), (b"d", b"1"), (b"e", b"1")], txid=1, base=0)
        assert storage.head().committed == 1, "nothing to compare with"
        storage.write(FIRST, {b"a": b"2", b"f": b"1"}, CODEC)
        storage.close()
        assert storage.raise_fence(Fence(1, 1)) == storage.head()
        assert storage.count() == len(entries(storage)) == 5


def test_the_number_of_entries_is_compared_once_for_each_opening(
    storage: StateStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[object] = []
    monkeypatch.setattr(SqliteFile, "check_count", lambda *numbers: compared.append(numbers))
    committed(storage, [(b"a", b"1")])
    for expected in (1, 2):
        storage.close()
        assert [storage.head().committed for _ in range(3)] == [0, 0, 0]
        assert len(compared) == expected


def test_a_writer_that_holds_the_file_for_too_long_is_named_as_the_cause(
    sqlite_provider: SqliteStateProvider, file: Path
) -> None:
    provider = SqliteStateProvider(sqlite_provider.directory, timeout_ms=20)
    with closing(provider.open(NAMESPACE)) as storage:
        committed(storage, [(b"a", b"1")])
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StateUnavailable, match="another process has been writing to it for 20 ms"):
                storage.claim()
            assert entries(storage) == {b"a": b"1"}
            other.execute("ROLLBACK")
        assert storage.claim() == Fence(2, 0)


def test_a_state_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match=str(tmp_path / "state")):
        SqliteStateProvider(str(tmp_path / "state")).open(NAMESPACE)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that all users can reach (pytest's own cannot)."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_that_cannot_be_written_to_is_refused(open_directory: Path, exists: bool) -> None:
    provider = SqliteStateProvider(str(open_directory))
    if exists:
        with closing(provider.open(NAMESPACE)) as storage:
            storage.claim()
    open_directory.chmod(0o555)
    for path in open_directory.iterdir():
        path.chmod(0o444)
    with pytest.raises(StateUnavailable, match="can be written to") as error:
        run(claim_as_nobody, provider, NAMESPACE)
    assert str(open_directory) in str(error.value)
    open_directory.chmod(0o755)
    with closing(provider.open(NAMESPACE)) as storage:
        assert storage.head().fence == Fence(int(exists), 0)


@pytest.mark.parametrize("committing", [False, True])
def test_a_file_that_may_not_grow_leaves_the_state_as_it_was(
    sqlite_provider: SqliteStateProvider, storage: StateStorage, committing: bool
) -> None:
    committed(storage, [(b"a", b"1")])
    storage.close()
    limit = 1_500_000 if committing else 300_000
    error = run(stage_with_small_files, sqlite_provider, NAMESPACE, limit, committing)
    assert isinstance(error, StateUnavailable)
    assert sqlite_provider.directory in str(error)
    assert storage.head().committed == 0
    assert entries(storage) == {b"a": b"1"}
    for attempt in storage.head().attempts:
        storage.commit(FIRST, 1, attempt)
        assert len(entries(storage)) == 1_001
