"""Reads the lines that start in a range of a file's bytes, in blocks of bounded size.

Ranges that follow each other have each line of the file once, wherever they end: a line belongs to the range of its
first byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from anchorbolt.errors import SerializationError, SourceUnavailable, StateRegressed
from anchorbolt.transactional.file_batches import Part
from anchorbolt.util.messages import shortened

_CHUNK = 1 << 20
_SMALL_CHUNK = 1 << 16  # where a line begins or ends outside the range
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

COMPLETE = (
    "Write files elsewhere on the file system, or under a name that begins with a dot, and rename them when they are "
    "complete."
)
"""The advice of messages about files that change."""


def text_lines(directory: Path, part: Part) -> Iterator[list[str]]:
    """Yield the lines of a part without their ends, in lists. An UTF-8 byte order mark is left out.

    Raises `SerializationError` for a line that is not UTF-8, and the errors of `byte_lines`.
    """
    for position, block in _blocks(directory, part):
        if position == 0 and block.startswith(_BYTE_ORDER_MARK):
            position = len(_BYTE_ORDER_MARK)
            block = block[position:]
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            raise _not_utf8(directory / part.name, position, block, error) from None
        lines = text.replace("\r\n", "\n").split("\n") if "\r\n" in text else text.split("\n")
        if not lines[-1]:
            lines.pop()
        yield lines


def byte_lines(directory: Path, part: Part) -> Iterator[list[bytes]]:
    """Yield the lines of a part without their ends, in lists.

    Raises `StateRegressed` if the file is gone or has changed, and `SourceUnavailable` if it cannot be read.
    """
    for _, block in _blocks(directory, part):
        lines = block.replace(b"\r\n", b"\n").split(b"\n") if b"\r\n" in block else block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        yield lines


def _blocks(directory: Path, part: Part) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of complete lines, each with its position in the file."""
    path = directory / part.name
    with _read_errors(path), path.open("rb") as file:
        stat = os.fstat(file.fileno())
        if (stat.st_size, stat.st_mtime_ns) != (part.size, part.mtime_ns):
            raise _changed(path, part, stat)
        start = position = _first_line(file, path, part)
        file.seek(start)
        pieces: list[bytes] = []  # the beginning of a line
        while position < part.end:
            chunk = _chunk(file, min(_CHUNK, part.end - position), path, part)
            position += len(chunk)
            end = chunk.rfind(b"\n") + 1
            if end:
                pieces.append(chunk[:end])
                yield start, b"".join(pieces)
                start = position - len(chunk) + end
                chunk = chunk[end:]
                pieces.clear()
            if chunk:
                pieces.append(chunk)
        end = 0
        while pieces and not end and position < part.size:
            chunk = _chunk(file, min(_SMALL_CHUNK, part.size - position), path, part)
            position += len(chunk)
            end = chunk.find(b"\n") + 1
            pieces.append(chunk[:end] if end else chunk)
        if pieces:
            yield start, b"".join(pieces)


def _first_line(file: BinaryIO, path: Path, part: Part) -> int:
    """Return the position of the first line that starts in the part, or the end of the part without one."""
    if part.begin == 0:
        return 0
    position = part.begin - 1  # a line that starts at `begin` follows a line end there
    file.seek(position)
    while position < part.end - 1:
        chunk = _chunk(file, min(_SMALL_CHUNK, part.end - 1 - position), path, part)
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(chunk)
    return part.end


def _chunk(file: BinaryIO, size: int, path: Path, part: Part) -> bytes:
    chunk = file.read(size)
    if len(chunk) < size:
        raise _changed(path, part, os.fstat(file.fileno()))
    return chunk


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        if path.parent.is_dir():
            raise StateRegressed(
                f"the file {str(path)!r} is gone before its batch has committed. Put it back with its modification "
                "time, as `cp -p` does, and start the topology again: the same batch is read. Remove files only after "
                "their batch.",
                expected=str(path),
                found="no file",
            ) from None
        raise SourceUnavailable(
            f"the directory {str(path.parent)!r} does not exist on {os.uname().nodename}. Mount it at the same path on "
            "the driver and on all executors."
        ) from None
    except OSError as error:
        raise SourceUnavailable(
            f"the file {str(path)!r} cannot be read on {os.uname().nodename}: {error.strerror or error}. Check the "
            "mount and the permissions, and start the topology again."
        ) from error


def _changed(path: Path, part: Part, stat: os.stat_result) -> StateRegressed:
    expected, found = (
        f"{size:,} bytes of {described_time(mtime_ns)}"
        for size, mtime_ns in ((part.size, part.mtime_ns), (stat.st_size, stat.st_mtime_ns))
    )
    return StateRegressed(
        f"the file {str(path)!r} has changed before its batch has committed: it had {expected}, and now has {found}. "
        "Put the file back as it was, with its modification time, as `cp -p` does, and start the topology again. "
        f"{COMPLETE}",
        expected=expected,
        found=found,
    )


def described_time(mtime_ns: int) -> str:
    """Return a modification time in the form that `touch -d` takes."""
    return f"@{mtime_ns // 10**9}.{mtime_ns % 10**9:09}"


def _not_utf8(path: Path, position: int, block: bytes, error: UnicodeDecodeError) -> SerializationError:
    begin = block.rfind(b"\n", 0, error.start) + 1
    end = block.find(b"\n", error.start)
    line = block[begin : len(block) if end < 0 else end]
    return SerializationError(
        f"the file {str(path)!r} has a line that is not UTF-8: byte {position + error.start:,} of the file is "
        f"0x{block[error.start]:02x}, in {shortened(line)}. Pass decode=False to FilesTransactionalSpout and decode "
        "the lines in a bolt; or convert the file, and give the topology another id."
    )
