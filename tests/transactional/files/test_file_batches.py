"""Which files the coordinator takes, in which batches, and which changes of the directory it refuses."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import ConfigError, SourceUnavailable, StateRegressed, TopologyError
from anchorbolt.serialization import pack
from anchorbolt.streams import OutputFieldsDeclarer
from anchorbolt.transactional import FilesTransactionalSpout, file_batches, files
from anchorbolt.transactional.batches.metadata import LARGEST_METADATA
from anchorbolt.transactional.file_batches import Part, Progress, next_batch, share_of
from tests.transactional.files.running import Running, write


@pytest.fixture(autouse=True)
def listed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LISTED_S", 0)
    monkeypatch.setattr(files, "_LISTING_SHARE", 0)


@pytest.fixture
def few_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_batches, "_MOST_RECENT", 2)


def test_files_are_taken_by_time_then_name_and_later_runs_take_new_ones(tmp_path: Path) -> None:
    for name, mtime in (("c", 1001), ("b", 1002), ("a", 1002), ("d", 1000)):
        write(tmp_path, name, f"{name}1\n{name}2\n", mtime)
    spout = FilesTransactionalSpout(tmp_path, take_files=3)
    run = Running(spout)
    assert run.lines_until_empty() == [["d1", "d2", "c1", "c2", "a1", "a2"], ["b1", "b2"]]
    write(tmp_path, "e", "e1", 1003)
    later = Running(spout)
    later.metadata = run.metadata
    assert later.lines_until_empty() == [["e1"]]
    assert not later.is_ready()


def test_each_batch_has_exactly_as_many_whole_files_as_are_asked_for(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"{number:02}", "line\n" * 100_000, 1000)
    run = Running(FilesTransactionalSpout(tmp_path, take_files=4, take_bytes=None), tasks=2)
    for first in (0, 4, 8):
        metadata = run.begin()
        assert [each[1] for each in metadata["parts"]] == [f"{number:02}" for number in range(first, first + 4)]
        assert [len(lines) for lines in run.emit(metadata)] == [200_000, 200_000]
        run.metadata = metadata
    assert not run.is_ready()


def test_a_large_file_is_divided_between_batches(tmp_path: Path) -> None:
    write(tmp_path, "a", "12345\n" * 5, 1000)
    write(tmp_path, "b", "x\n", 1001)
    run = Running(FilesTransactionalSpout(tmp_path, take_bytes=12))
    assert run.lines_until_empty() == [["12345"] * 2, ["12345"] * 2, ["12345", "x"]]


def test_hidden_files_folders_and_files_of_another_pattern_are_left_out(tmp_path: Path) -> None:
    for name in ("a.txt", "b.log", "_c.txt", ".d.txt", "f.TXT"):
        write(tmp_path, name, name, 1000)
    (tmp_path / "g.txt").mkdir()
    (tmp_path / "h.txt").symlink_to(tmp_path / "nothing")
    assert Running(FilesTransactionalSpout(tmp_path, pattern="*.txt")).lines_until_empty() == [["a.txt"]]


def test_files_that_appear_a_little_out_of_order_are_taken(tmp_path: Path) -> None:
    run = Running(FilesTransactionalSpout(tmp_path))
    for name, mtime in (("a", 1000), ("c", 1002), ("b", 1001), ("0", 999)):
        write(tmp_path, name, name, mtime)
        assert run.lines_until_empty() == [[name]]


@pytest.mark.usefixtures("few_recent")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_that_would_be_missed_is_refused_until_it_is_touched(tmp_path: Path, restarts: bool) -> None:
    spout = FilesTransactionalSpout(tmp_path)
    run = Running(spout)
    for number in range(4):
        write(tmp_path, f"{number}", f"{number}", 1000 + number)
        run.lines_until_empty()
    late = write(tmp_path, "late", "late", 1000)
    if restarts:
        metadata, run = run.metadata, Running(spout)
        run.metadata = metadata
    for _ in range(2):
        with pytest.raises(StateRegressed, match=r"Files up to @1001\.0{9} \('1'\) were taken, 2 in all, and 3 such"):
            run.is_ready()
    late.touch()
    assert run.lines_until_empty() == [["late"]]


@pytest.mark.usefixtures("few_recent")
def test_taken_files_may_be_removed_and_the_directory_may_be_away_for_a_time(tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    run = Running(FilesTransactionalSpout(directory), conf={"topology.message.timeout.secs": 0.001})
    for number in range(5):
        write(directory, f"{number}", f"{number}", 1000 + number)
    assert run.is_ready()
    run.new_batch()
    (directory / "1").unlink()
    assert not run.is_ready()
    directory.rename(tmp_path / "away")
    with pytest.raises(SourceUnavailable, match="cannot be listed on the driver"):
        run.is_ready()
    directory.mkdir()  # as an empty mount point
    assert not run.is_ready()
    directory.rmdir()
    (tmp_path / "away").rename(directory)
    assert not run.is_ready()
    write(directory, "5", "five", 2000)
    assert run.lines_until_empty() == [["five"]]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_that_changes_after_it_was_taken_is_refused(tmp_path: Path, restarts: bool) -> None:
    spout = FilesTransactionalSpout(tmp_path)
    run = Running(spout)
    write(tmp_path, "a", "old", 1000)
    run.lines_until_empty()
    write(tmp_path, "a", "new", 1001)
    if restarts:
        metadata, run = run.metadata, Running(spout)
        run.metadata = metadata
    with pytest.raises(StateRegressed, match=r"'a' in .* has changed after .* run `touch -d @1000\.0{9}`"):
        run.is_ready()
    write(tmp_path, "a", "old", 1000)
    assert not run.is_ready()


def written_in_place(path: Path) -> None:
    with path.open("a") as file:
        file.write("more\n")


@pytest.mark.parametrize(("change", "message"), [(Path.unlink, "is gone"), (written_in_place, "has changed")])
def test_a_file_that_changes_before_it_is_taken_is_in_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    monkeypatch.setattr(files, "_LISTED_S", 600)
    spout = FilesTransactionalSpout(tmp_path)
    written = write(tmp_path, "b", "b\n", 1001)
    run = Running(spout)
    assert run.is_ready()
    change(written)
    with pytest.raises(StateRegressed, match=f"b' {message} since it was listed. Start the topology again"):
        run.begin()
    assert Running(spout).lines_until_empty() == ([["b", "more"]] if written.exists() else [])


def test_the_directory_is_not_listed_for_each_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LISTED_S", 600)
    for number in range(3):
        write(tmp_path, f"{number}", f"{number}", 1000)
    run = Running(FilesTransactionalSpout(tmp_path, take_files=1))
    listed = []
    listing = run.coordinator._listing
    monkeypatch.setattr(run.coordinator, "_listing", lambda: listed.append(1) or listing())
    assert run.lines_until_empty() == [["0"], ["1"], ["2"]]
    write(tmp_path, "3", "3", 1001)
    assert not run.is_ready()
    assert len(listed) == 1


def test_a_directory_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    run = Running(FilesTransactionalSpout(tmp_path / "in"))
    with pytest.raises(ConfigError, match=r"in' cannot be listed on the driver: No such file .*\. Mount it"):
        run.is_ready()


def test_a_directory_that_cannot_be_listed_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Running(FilesTransactionalSpout(tmp_path), conf={"topology.message.timeout.secs": 0.001})

    def refused(path: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.os, "scandir", refused)
    with pytest.raises(SourceUnavailable, match="cannot be listed on the driver: Permission denied"):
        run.is_ready()


@pytest.mark.parametrize("metadata", [{"start": 1, "end": 2}, [1, 2]])
def test_the_progress_of_another_spout_is_refused(tmp_path: Path, metadata: Any) -> None:
    run = Running(FilesTransactionalSpout(tmp_path))
    run.metadata = metadata
    with pytest.raises(TopologyError, match="as of another directory or another spout"):
        run.is_ready()


def test_the_progress_of_another_directory_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write(tmp_path / name, "x", "x", 1000)
    run = Running(FilesTransactionalSpout(tmp_path / "a"))
    run.lines_until_empty()
    other = Running(FilesTransactionalSpout(tmp_path / "b"))
    other.metadata = run.metadata
    with pytest.raises(TopologyError, match="as a link if it was moved; or give the topology another id"):
        other.is_ready()


@given(
    rounds=st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=6), max_size=8),
    take_files=st.integers(1, 4),
    take_bytes=st.none() | st.integers(1, 40),
    most=st.integers(1, 5),
)
def test_all_bytes_of_files_that_appear_in_order_are_taken_once(
    rounds: list[list[tuple[int, int]]], take_files: int, take_bytes: int | None, most: int
) -> None:
    found: list[Part] = []
    taken: list[Part] = []
    progress, time = Progress(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_batches, "_MOST_RECENT", most)
        for added in rounds:
            for step, size in added:
                time += step
                found.append(Part(time, f"{len(found):03}", size, 0, size))
            while progress.rest is not None or any(progress.untaken(found)):
                parts, progress = next_batch(progress, progress.untaken(found), take_files, take_bytes)
                assert len(parts) <= take_files
                assert take_bytes is None or sum(part.end - part.begin for part in parts) <= take_bytes
                taken += parts
    for file in found:
        ranges = [(part.begin, part.end) for part in taken if part.name == file.name]
        assert [begin for begin, _ in ranges] == [0, *[end for _, end in ranges[:-1]]][: len(ranges)]
        assert (ranges[-1][1] if ranges else 0) == file.size


@pytest.mark.parametrize("length", [10, 255])
def test_the_metadata_stays_small(length: int) -> None:
    found = [Part(10**18 + number, f"{number:0{length}}", 2**40, 0, 2**40) for number in range(5000)]
    progress, number = Progress(), 0
    while any(progress.untaken(found)):
        parts, progress = next_batch(progress, progress.untaken(found), file_batches.MOST_FILES, None)
        number += len(parts)
        packed = pack({"directory": "d" * 4096, "parts": parts, "progress": progress})
        assert len(packed) < LARGEST_METADATA
    assert number == 5000


@given(parts=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=6), tasks=st.integers(1, 9))
def test_the_tasks_share_the_bytes_of_a_batch_evenly(parts: list[tuple[int, int]], tasks: int) -> None:
    batch = [Part(0, f"{number}", 200, begin, begin + size) for number, (begin, size) in enumerate(parts)]
    shares = [list(share_of(batch, task, tasks)) for task in range(tasks)]
    sizes = [sum(part.end - part.begin for part in share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    read = [(part.name, at) for share in shares for part in share for at in range(part.begin, part.end)]
    assert read == [(part.name, at) for part in batch for at in range(part.begin, part.end)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"directory": ""}, "directory is ''. Pass the path of a directory"),
        ({"directory": "s3a://bucket/in"}, "read other file systems with a SparkTransactionalSpout"),
        ({"fields": "line"}, "fields is 'line'. Pass a list of names"),
        ({"fields": ["a", "b"]}, "Pass one name, of the field for the line"),
        ({"fields": ["tx"]}, "'tx' is the field for the attempt"),
        ({"pattern": "a/*"}, "pattern is 'a/[*]'. Pass a pattern of file names"),
        ({"take_files": 501}, "take_files is 501. Pass a whole number from 1 to 500"),
        ({"take_bytes": 0}, "take_bytes is 0. Pass a whole number, at least 1, or None"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        FilesTransactionalSpout(**{"directory": "in", **arguments})


def test_the_fields_are_declared_and_the_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spout = FilesTransactionalSpout("in", ["text"], attempt_field="attempt")
    declarer = OutputFieldsDeclarer("lines")
    spout.declare_output_fields(declarer)
    assert declarer.streams["default"].fields == ("attempt", "text")
    assert spout.directory == str(tmp_path / "in")
    assert FilesTransactionalSpout(f"file://{tmp_path}/in/").directory == str(tmp_path / "in")
