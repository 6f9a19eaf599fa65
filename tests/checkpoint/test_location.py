"""What drivers read and write at the streaming checkpoint location, while others do."""

from pathlib import Path

import pytest

from anchorbolt.checkpoint.decision_log import FolderCopy
from anchorbolt.errors import ConfigError
from anchorbolt.files import open_folder


@pytest.fixture
def copy(tmp_path: Path) -> FolderCopy:
    return FolderCopy(open_folder(str(tmp_path)))


def test_the_copy_of_the_highest_generation_is_read(copy: FolderCopy) -> None:
    assert copy.read() is None
    for generation in (9, 10, 2):
        copy.write(generation, b"of %d" % generation)
    assert copy.read() == b"of 10"


def test_what_older_drivers_left_of_copies_they_could_not_finish_is_removed(copy: FolderCopy, tmp_path: Path) -> None:
    place = tmp_path / "anchorbolt"
    for generation in (2, 10):
        copy.write(generation, b"whole")
        for name in (f".decision-{generation}.0123abcd.tmp", f"decision-{generation}.tmp"):
            (place / name).write_bytes(b"part")
    (place / "decision-x").touch()
    copy.forget_older(10)
    kept = {"decision-10", ".decision-10.0123abcd.tmp", "decision-10.tmp", "decision-x"}
    assert {path.name for path in place.iterdir()} == kept


def test_a_copy_that_a_newer_driver_removes_meanwhile_is_not_missed(
    copy: FolderCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by seed 399728 of the simulation: with no copy, a store that was restored from the past looks new."""
    copy.write(1, b"of 1")
    folder = open_folder(str(tmp_path))
    names, newer = folder.names, iter([2, 3])

    def overtaken(name: str) -> list[str]:
        listed = list(names(name))
        for generation in newer:
            FolderCopy(open_folder(str(tmp_path))).write(generation, b"of %d" % generation)
            FolderCopy(open_folder(str(tmp_path))).forget_older(generation)
            break
        return listed

    monkeypatch.setattr(folder, "names", overtaken)
    assert FolderCopy(folder).read() == b"of 3"


def test_a_copy_that_is_listed_and_cannot_be_read_is_looked_for_once(
    copy: FolderCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a listing of an object store may show for a while what has been removed."""
    folder = open_folder(str(tmp_path))
    monkeypatch.setattr(folder, "names", lambda _: ["decision-1"])
    assert FolderCopy(folder).read() is None
    monkeypatch.setattr(folder, "names", lambda _: ["decision-1", "decision-2"])
    copy.write(1, b"of 1")
    assert FolderCopy(folder).read() == b"of 1"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError):
        open_folder(str(tmp_path / "file"))
