"""The batches of a spout over a directory of files: which files are taken, and where a batch ends. Pure.

Files are taken in the order of their modification time, then name. A batch's metadata does not name all files that were
ever taken: all files up to a position of this order (`floor`) are taken, and so are the files of a short list after it
(`recent`). The list lets files appear a little out of order, as when several programs write them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

MOST_FILES = 1000  # of a batch
_MOST_RECENT = 500
# Together below the limit of a batch's metadata, 256 KiB.
_PARTS_BYTES = 128 << 10
_RECENT_BYTES = 64 << 10
_PART_BYTES = 45  # of numbers, in the packed form of a part
_POSITION_BYTES = 15


class Position(NamedTuple):
    """A file's place in the order in which files are taken."""

    mtime_ns: int
    name: str


class File(NamedTuple):
    """A file of the directory."""

    mtime_ns: int
    name: str
    size: int

    @property
    def position(self) -> Position:
        return Position(self.mtime_ns, self.name)


class Part(NamedTuple):
    """The lines of a file that start from `begin` up to `end`. Size and time are those of the whole file."""

    name: str
    mtime_ns: int
    size: int
    begin: int
    end: int


@dataclass(frozen=True)
class Progress:
    """What batches have taken.

    Attributes:
        floor: All files up to this position are taken; None if no file is known only by it.
        below: How many files were taken up to `floor`.
        recent: The files after `floor` that are taken, in order.
        rest: What the last batch left of its last file; None if it took the whole file. The file is in `recent`.
    """

    floor: Position | None = None
    below: int = 0
    recent: tuple[Position, ...] = ()
    rest: Part | None = None

    def values(self) -> dict[str, Any]:
        """Return the plain values to store."""
        return {
            "floor": None if self.floor is None else list(self.floor),
            "below": self.below,
            "recent": [list(each) for each in self.recent],
            "rest": None if self.rest is None else list(self.rest),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Progress:
        floor, rest = values["floor"], values["rest"]
        return cls(
            None if floor is None else Position(*floor),
            values["below"],
            tuple(Position(*each) for each in values["recent"]),
            None if rest is None else Part(*rest),
        )

    def taken(self, files: Sequence[Position]) -> Progress:
        """Return the progress after these files have been taken, too. Forgets the oldest names of a long list."""
        recent = sorted({*self.recent, *files})
        kept = size = 0
        for position in reversed(recent[-_MOST_RECENT:]):
            size += _size_of(position.name) + _POSITION_BYTES
            if size > _RECENT_BYTES:
                break
            kept += 1
        forgotten, recent = recent[: len(recent) - kept], recent[len(recent) - kept :]
        floor = forgotten[-1] if forgotten else self.floor
        return replace(self, floor=floor, below=self.below + len(forgotten), recent=tuple(recent))

    def count_below(self, files: Sequence[File]) -> int:
        """Return how many of the files, which are in order, are at most at the floor."""
        return 0 if self.floor is None else bisect_right(files, self.floor, key=lambda file: file.position)

    def has_taken(self, position: Position) -> bool:
        return (self.floor is not None and position <= self.floor) or position in self.recent

    def untaken(self, files: Sequence[File]) -> Iterator[File]:
        """Yield the files, which are in order, that no batch has taken."""
        recent = set(self.recent)
        for index in range(self.count_below(files), len(files)):
            if files[index].position not in recent:
                yield files[index]


def next_batch(
    progress: Progress, untaken: Iterable[File], take_files: int, take_bytes: int | None
) -> tuple[list[Part], Progress]:
    """Return the parts of the next batch, and the progress after it. An empty file has no part, but is taken."""
    rest = progress.rest
    parts: list[Part] = []
    taken: list[Position] = []
    left, names = take_bytes, _PARTS_BYTES
    candidates = iter(untaken)
    for _ in range(take_files):
        if rest is not None:
            whole = rest
        else:
            file = next(candidates, None)
            if file is None:
                break
            names -= _size_of(file.name) + _PART_BYTES
            if names < 0 and taken:
                break
            taken.append(file.position)
            if file.size == 0:
                continue
            whole = Part(file.name, file.mtime_ns, file.size, 0, file.size)
        end = whole.end if left is None else min(whole.end, whole.begin + left)
        parts.append(whole._replace(end=end))
        rest = whole._replace(begin=end) if end < whole.end else None
        if left is not None:
            left -= end - whole.begin
            if left == 0:
                break
    return parts, replace(progress, rest=rest).taken(taken)


def share_of(parts: Sequence[Part], task: int, tasks: int) -> Iterator[Part]:
    """Yield what a task reads of a batch: the tasks have about the same number of bytes."""
    total = sum(part.end - part.begin for part in parts)
    first, last = total * task // tasks, total * (task + 1) // tasks
    start = 0  # of the part, in the bytes of the batch
    for part in parts:
        begin = part.begin + max(0, first - start)
        end = part.begin + min(part.end - part.begin, last - start)
        if begin < end:
            yield part._replace(begin=begin, end=end)
        start += part.end - part.begin


def _size_of(name: str) -> int:
    return len(name) if name.isascii() else len(name.encode())
