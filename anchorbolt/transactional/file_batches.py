"""Which files `FilesTransactionalSpout` takes, and which parts of them make a batch. Pure.

Files are taken in the order of their modification time, then name. A batch's metadata does not name all taken files. It
has a position of this order up to which all files are taken (`floor`), and the taken files after it (`recent`). So
files may appear a little out of order, as when several programs write them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

# With names of 255 bytes, metadata has less than the 256 KiB that it may have.
MOST_FILES = 500  # of a batch
_MOST_RECENT = 300


class Part(NamedTuple):
    """The lines of a file that start from `begin` up to `end`. Size and time are those of the whole file."""

    mtime_ns: int
    name: str
    size: int
    begin: int
    end: int


class Progress(NamedTuple):
    """What batches have taken. A batch's metadata holds it, as it is after that batch."""

    floor: tuple[int, str] = (-(1 << 63), "")  # time and name; all files up to here are taken
    below: int = 0  # how many files that were
    recent: tuple[tuple[int, str], ...] = ()  # times and names of the taken files after it, in order
    rest: tuple[int, str, int, int, int] | None = None  # the part that the last batch left of its last file

    def count_below(self, files: Sequence[Part]) -> int:
        """Return how many of the files, which are in order, are at most at the floor."""
        return bisect_left(files, (*self.floor, math.inf))

    def untaken(self, files: Sequence[Part]) -> Iterator[Part]:
        """Yield the files, which are in order, that no batch has taken."""
        recent = set(self.recent)
        return (file for file in files[self.count_below(files) :] if file[:2] not in recent)


def next_batch(
    progress: Progress, untaken: Iterable[Part], take_files: int, take_bytes: int | None
) -> tuple[list[Part], Progress]:
    """Return the parts of the next batch, and the progress after it. An empty file has no part, but is taken."""
    parts, taken, rest = [], set(progress.recent), None
    left = take_bytes or math.inf
    begun = [] if progress.rest is None else [Part(*progress.rest)]
    for part in islice(chain(begun, untaken), take_files):
        end = int(min(part.end, part.begin + left))
        left -= end - part.begin
        if part.begin == 0:
            taken.add(part[:2])
        if end > part.begin:
            parts.append(part._replace(end=end))
        if end < part.end:
            rest = part._replace(begin=end)
        if not left:
            break
    recent = sorted(taken)
    forgotten, recent = recent[:-_MOST_RECENT], recent[-_MOST_RECENT:]
    floor = forgotten[-1] if forgotten else progress.floor
    return parts, Progress(floor, progress.below + len(forgotten), tuple(recent), rest)


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
