"""SQLite's own caches: only the files that were used last keep their pages."""

import threading
from pathlib import Path

import pytest

from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.sqlite import SqliteStateProvider, database_file
from anchorbolt.state_backends.sqlite.database_file import PageCaches


class File:
    def __init__(self) -> None:
        self.freed = 0

    def free_pages(self) -> None:
        self.freed += 1


def test_the_files_that_were_used_least_recently_free_their_pages() -> None:
    caches, files = PageCaches(), [File() for _ in range(10)]
    for file in (*files, files[9], files[2]):
        caches.use(file)
    assert [file.freed for file in files] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    caches.forget(files[9])
    caches.use(files[0])
    assert files[3].freed == 0
    caches.use(files[1])
    assert files[3].freed == 1


@pytest.fixture
def storages(tmp_path: Path) -> list[StateStorage]:
    provider = SqliteStateProvider(tmp_path)
    return [provider.open(f"t:b-{number}") for number in range(12)]


def test_files_that_freed_their_pages_are_read_and_written_as_before(storages: list[StateStorage]) -> None:
    for _ in range(2):
        for number, storage in enumerate(storages):
            storage.write(storage.claim(), {b"k": b"%d" % number}, "bench/1")
    assert [storage.get_many([b"k"]) for storage in storages] == [[b"%d" % number] for number in range(12)]
    for storage in storages:
        storage.close()
    assert not database_file._page_caches._files


def test_a_file_that_a_thread_uses_does_not_wait_for_another_one(storages: list[StateStorage]) -> None:
    first = storages[0]
    first.write(Fence(1, 1), {b"k": b"v"}, "bench/1")
    file = first._file  # type: ignore[attr-defined]
    with file.reading():
        other = threading.Thread(target=file.free_pages)
        other.start()
        other.join(10)
        assert not other.is_alive()
    assert first.get_many([b"k"]) == [b"v"]
