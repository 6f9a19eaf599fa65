"""Reads the lines that start in a range of a file's bytes, in blocks of bounded size.

Ranges that follow each other have each line of the file once, wherever they end: a line belongs to the range of its
first byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from anchorbolt.errors import SerializationError, SourceUnavailable, StateRegressed
from anchorbolt.transactional.file_batches import Part
from anchorbolt.util.messages import shortened

_CHUNK = 1 << 20
COMPLETE = "Write files under a name that begins with a dot, and rename them when they are complete."
_COMMITTED = (
    "before its batch has committed. Put it back as it was, with its modification time, as `cp -p` does, and start the "
    "topology again: the same batch is read."
)


def lines_of(directory: str, part: Part, decode: bool) -> Iterator[list[Any]]:
    """Yield the lines of a part without their ends, in lists; decoded, they lack the UTF-8 byte order mark.

    Raises `SerializationError` for a line that is not UTF-8, `StateRegressed` if the file is gone or has changed, and
    `SourceUnavailable` if it cannot be read.
    """
    path = os.path.join(directory, part.name)
    try:
        with open(path, "rb") as file:
            for position, block in _blocks(file, path, part):
                yield _lines(path, position, block, decode)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and os.path.isdir(directory):
            check_file(path, part, _COMMITTED)
        raise SourceUnavailable(
            f"the file {path!r} cannot be read on {os.uname().nodename}: {error.strerror or error}. Mount its "
            "directory at the same path on the driver and on all executors, check the permissions, and start the "
            "topology again."
        ) from error


def _blocks(file: BinaryIO, path: str, part: Part) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of complete lines, each with its position in the file."""
    check_file(path, part, _COMMITTED, file)
    position = max(0, part.begin - 1)
    file.seek(position)
    if part.begin:  # a line that starts at `begin` follows a line end
        position += len(file.readline(part.end - position))
    while position < part.end:
        block = file.read(min(_CHUNK, part.end - position))
        if not block.endswith(b"\n"):
            block += file.readline()
        following = position + len(block)
        if following < part.size and not block.endswith(b"\n"):
            check_file(path, part, _COMMITTED, file)
            raise OSError("it ends early")
        yield position, block
        position = following


def _lines(path: str, position: int, block: bytes, decode: bool) -> list[Any]:
    lines: list[Any]
    if decode:
        try:
            text = block.decode("utf-8" if position else "utf-8-sig")
        except UnicodeDecodeError as error:
            place = position + len(block) - len(error.object) + error.start
            line = error.object[error.object.rfind(b"\n", 0, error.start) + 1 :].partition(b"\n")[0]
            raise SerializationError(
                f"the file {path!r} has a line that is not UTF-8: byte {place:,} of the file is "
                f"0x{error.object[error.start]:02x}, in {shortened(line)}. Pass decode=False to "
                "FilesTransactionalSpout and decode the lines in a bolt; or convert the file, and give the topology "
                "another id."
            ) from None
        lines = text.replace("\r\n", "\n").split("\n")
    else:
        lines = block.replace(b"\r\n", b"\n").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def check_file(path: str, part: Part, advice: str, file: BinaryIO | None = None) -> None:
    """Raise `StateRegressed` unless the file at the path, or this open one, is as it was listed."""
    try:
        stat = os.stat(path if file is None else file.fileno())
        if (stat.st_size, stat.st_mtime_ns) == (part.size, part.mtime_ns):
            return
        state, found = "has changed", f"{stat.st_size:,} bytes of {touched(stat.st_mtime_ns)}"
    except FileNotFoundError:
        state, found = "is gone", "no file"
    expected = f"{part.size:,} bytes of {touched(part.mtime_ns)}"
    message = f"the file {path!r} {state} {advice} It had {expected}, and now there is {found}. {COMPLETE}"
    raise StateRegressed(message, expected=expected, found=found)


def touched(mtime_ns: int) -> str:
    """Return a modification time in the form that `touch -d` takes."""
    return f"@{mtime_ns // 10**9}.{mtime_ns % 10**9:09}"
