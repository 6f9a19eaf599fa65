"""Which lines the tasks emit of a batch of files."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.errors import SerializationError, SourceUnavailable, StateRegressed
from anchorbolt.transactional import FilesTransactionalSpout, file_lines
from anchorbolt.transactional.file_batches import Part
from tests.transactional.files.running import Running, flat, write

_LINES = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"x"))


def lines_of(content: bytes) -> list[bytes]:
    """Return what Spark's source of text returns, if `\\r` is only in front of `\\n`."""
    lines = content.replace(b"\r\n", b"\n").split(b"\n")
    return lines if lines[-1] else lines[:-1]


@st.composite
def contents(draw: Any) -> bytes:
    ends = [draw(st.sampled_from([b"\n", b"\r\n"])) for _ in range(draw(st.integers(0, 8)))]
    return b"".join(draw(_LINES) + end for end in ends) + draw(_LINES)


@settings(max_examples=200)
@given(
    files=st.lists(contents(), max_size=5),
    tasks=st.integers(1, 5),
    take_files=st.integers(1, 4),
    take_bytes=st.none() | st.integers(1, 40),
    chunk=st.integers(1, 7),
)
def test_each_line_is_emitted_once_and_again_in_each_try(
    files: list[bytes], tasks: int, take_files: int, take_bytes: int | None, chunk: int
) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_lines, "_CHUNK", chunk)
        for number, content in enumerate(files):
            write(Path(name), f"{number}", content, 1000 + number // 2)
        spout = FilesTransactionalSpout(name, take_files=take_files, take_bytes=take_bytes, decode=False)
        run = Running(spout, tasks)
        emitted = []
        while run.is_ready():
            metadata = run.begin()
            first = run.emit(metadata)
            assert run.emit(metadata) == first
            other = Running(spout, 6 - tasks)  # an operator has changed the parallelism between two tries
            assert flat(other.emit(metadata)) == flat(first)
            emitted += flat(first)
            run.metadata = metadata
        assert emitted == [line for content in files for line in lines_of(content)]


def test_two_tasks_read_half_of_a_large_file_each(tmp_path: Path) -> None:
    lines = [f"line {number:06}" for number in range(200_000)]
    write(tmp_path, "large.txt", "\n".join(lines), 1000)
    first, second = Running(FilesTransactionalSpout(tmp_path), tasks=2).new_batch()
    assert first + second == lines
    assert abs(len(first) - len(second)) <= 1


def test_lines_are_cut_as_spark_cuts_them(tmp_path: Path) -> None:
    write(tmp_path, "a", "\ufeffa\r\n\r\n\nlast é", 1000)
    write(tmp_path, "b", "", 1001)
    write(tmp_path, "c", "\n", 1002)
    write(tmp_path, "d", "x\ry\u2028z\n", 1003)
    [batch] = Running(FilesTransactionalSpout(tmp_path)).lines_until_empty()
    assert batch == ["a", "", "", "last é", "", "x\ry\u2028z"]


def test_a_line_longer_than_the_shares_of_several_tasks_is_emitted_by_one(tmp_path: Path) -> None:
    long = "é" * 3_000_000
    write(tmp_path, "a", f"first\n{long}\nlast", 1000)
    tasks = Running(FilesTransactionalSpout(tmp_path), tasks=4).new_batch()
    assert tasks == [["first", long], [], [], ["last"]]


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_line_that_is_not_utf8_is_refused_with_its_place(tmp_path: Path, tasks: int) -> None:
    content = b"ok\n" * 1000 + b"caf\xe9\nok\n"
    path = write(tmp_path, "a.txt", content, 1000)
    run = Running(FilesTransactionalSpout(tmp_path), tasks)
    with pytest.raises(SerializationError, match=r"byte 3,003 of the file is 0xe9, in b'caf\\xe9'") as raised:
        run.new_batch()
    assert str(path) in str(raised.value)
    run = Running(FilesTransactionalSpout(tmp_path, decode=False), tasks)
    assert flat(run.new_batch()) == content.split(b"\n")[:-1]


def test_the_place_of_a_wrong_byte_counts_a_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", b"\xef\xbb\xbfok\n\xff", 1000)
    with pytest.raises(SerializationError, match=r"byte 6 of the file is 0xff, in b'\\xff'"):
        Running(FilesTransactionalSpout(tmp_path)).new_batch()


@pytest.mark.parametrize("begin", [0, 10])
def test_a_file_that_is_cut_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    monkeypatch.setattr(file_lines, "_CHUNK", 1 << 16)
    path = write(tmp_path, "a.txt", "line\n" * 100_000, 1000)
    lines = file_lines.lines_of(str(tmp_path), Part(1000 * 10**9, "a.txt", 500_000, begin, 500_000), True)
    next(lines)
    os.truncate(path, 100_000)
    with pytest.raises(StateRegressed, match=r"had 500,000 bytes of .*, and now there is 100,000 bytes"):
        list(lines)


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    path.write_text("a\n")


def touch(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove, "is gone before"),
        (shorten, "had 4 bytes of @1000.0{9}, and now there is 2 bytes"),
        (touch, "has changed"),
    ],
)
def test_a_file_that_changed_between_two_tries_is_refused_until_it_is_back(
    tmp_path: Path, change: Any, message: str
) -> None:
    path = write(tmp_path, "a.txt", "a\nb\n", 1000)
    run = Running(FilesTransactionalSpout(tmp_path))
    metadata = run.begin()
    change(path)
    with pytest.raises(StateRegressed, match=message) as raised:
        run.emit(metadata)
    assert str(path) in str(raised.value)
    write(tmp_path, "a.txt", "a\nb\n", 1000)
    assert run.emit(metadata) == [["a", "b"]]


def test_a_directory_that_is_not_on_an_executor_is_reported(tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    write(directory, "a.txt", "a\n", 1000)
    run = Running(FilesTransactionalSpout(directory))
    metadata = run.begin()
    directory.rename(tmp_path / "away")
    with pytest.raises(SourceUnavailable, match=r"cannot be read on .* Mount its directory at the same path"):
        run.emit(metadata)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.txt", "a\n", 1000)
    run = Running(FilesTransactionalSpout(tmp_path))
    metadata = run.begin()

    def refused(path: str, mode: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_lines, "open", refused, raising=False)
    with pytest.raises(SourceUnavailable, match=r"a\.txt' cannot be read on .*: Permission denied"):
        run.emit(metadata)
