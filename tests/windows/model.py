"""Windows over tuples, computed from lists by their definition."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anchorbolt.windows.task_windows import WindowSize


class Fired(NamedTuple):
    start: int | None
    end: int
    numbers: list[int]
    new: list[int]
    expired: list[int]


def windows(size: WindowSize, times: Sequence[int], until: int, *, by_event_time: bool) -> list[Fired]:
    """Return the windows up to a time of the clock or watermark, of tuples given by their times in order of arrival.

    Tuples are numbered from 0 in the order of arrival.
    """
    order = sorted(range(len(times)), key=times.__getitem__)
    if by_event_time:
        order = [number for number in order if times[number] < until]
    fired: list[Fired] = []
    before: list[int] = []
    reported: set[int] = set()
    for end, arrived in _ends(size, order, times, until, by_event_time):
        if size.length_count is not None:
            inside = arrived[-size.length_count :]
        else:
            assert size.length_ms is not None
            by_clock = not by_event_time and size.every_ms is not None
            inside = [number for number in arrived if end - size.length_ms < times[number] + by_clock]
        if inside:
            expired = [number for number in arrived if number not in inside and number not in reported]
            reported.update(expired)
            new = [number for number in inside if number not in before]
            start = None if size.length_ms is None else end - size.length_ms
            fired.append(Fired(start, end, inside, new, expired))
        before = inside
    return fired


def _ends(
    size: WindowSize, order: list[int], times: Sequence[int], until: int, by_event_time: bool
) -> Iterator[tuple[int, list[int]]]:
    """Yield the end of each window that may have tuples, and the tuples up to it."""
    if size.every_count is not None:
        for count in range(size.every_count, len(order) + 1, size.every_count):
            yield times[order[count - 1]], order[:count]
    elif times:
        assert size.every_ms is not None
        first = min(times) // size.every_ms * size.every_ms
        for end in range(first, until + (not by_event_time), size.every_ms):
            yield end, [number for number in order if times[number] < end + by_event_time]
