"""SQLite's own caches, and the file systems on which its files may be."""

import threading
from pathlib import Path

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.sqlite import SqliteStateProvider, database_file
from anchorbolt.state_backends.sqlite import provider as sqlite_provider
from anchorbolt.state_backends.sqlite.database_file import PageCaches
from anchorbolt.state_backends.sqlite.provider import mounted_type


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


MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
tmpfs /run tmpfs rw 0 0
server:/export /mnt/shared nfs4 rw,vers=4.2 0 0
/dev/vdb /mnt/shared/local xfs rw 0 0
//server/share /mnt/with\\040space cifs rw 0 0
/dev/vdc /srv ext4 rw 0 0
user@host: /srv fuse.sshfs rw 0 0
a line of another form
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/home/me/state", "ext4"),
        ("/running", "ext4"),
        ("/run/state", "tmpfs"),
        ("/mnt/shared", "nfs4"),
        ("/mnt/shared/state/deep", "nfs4"),
        ("/mnt/shared-not", "ext4"),
        ("/mnt/shared/local/state", "xfs"),
        ("/mnt/with space/state", "cifs"),
        ("/srv/state", "fuse.sshfs"),
    ],
)
def test_a_path_is_on_the_innermost_and_latest_mount(path: str, expected: str) -> None:
    assert mounted_type(path, MOUNTS) == expected


def test_a_state_directory_on_a_network_file_system_is_refused_also_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"{MOUNTS}server:/x {tmp_path}/remote nfs rw 0 0\n")
    monkeypatch.setattr(sqlite_provider, "_MOUNTS", mounts)
    (tmp_path / "remote").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "remote")
    for directory, kind in (("/mnt/shared/state", "nfs4"), (f"{tmp_path}/link/state", "nfs")):
        with pytest.raises(ConfigError, match=rf"{directory}.*{kind}"):
            SqliteStateProvider(directory).open("a:b-0")
    SqliteStateProvider("/mnt/shared/local/state").open("a:b-0").close()


def test_where_the_system_does_not_say_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_provider, "_MOUNTS", tmp_path / "absent")
    SqliteStateProvider(str(tmp_path)).open("a:b-0").close()
