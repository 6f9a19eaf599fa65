"""The blob that a task sends to an acker at the end of a wave, and its decoded form.

All arrays of roots are in ascending order, each root once, so that the ledger need not sort them again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.tracking.sorted_roots import NO_ROOTS, Roots, is_ascending

MOST_TASKS = 1 << 16
"""A task's id must be below this: it is stored in 2 bytes."""

Numbers = NDArray[np.uint32]


class Opened(NamedTuple):
    """Trees that a spout's task opened. The message ids are in the order of the emits: it is slow to sort them."""

    roots: Roots
    places: Numbers  # for each root: the index of its message id
    bounds: Numbers  # the start of each packed message id in `msg_ids`, then the end of the last
    msg_ids: bytes  # all of them together

    def msg_ids_at(self, positions: NDArray[np.intp]) -> list[bytes]:
        """Return the message ids of the roots at these positions."""
        places, msg_ids = self.places[positions], self.msg_ids
        starts, ends = self.bounds[:-1][places].tolist(), self.bounds[1:][places].tolist()
        return [msg_ids[start:end] for start, end in zip(starts, ends, strict=True)]


class Failed(NamedTuple):
    """Trees that failed for one reason."""

    component: str
    task_index: int
    reason: str
    roots: Roots


class Contribution(NamedTuple):
    """The news of one task in one wave for one acker."""

    task_id: int
    roots: Roots = NO_ROOTS
    xors: Roots = NO_ROOTS  # for each root: XOR of the ids of tuples newly held or released; never zero
    held: Roots = NO_ROOTS  # trees with a tuple of this wave that was neither acked nor failed
    reset: Roots = NO_ROOTS  # trees whose time-out starts again
    expired: Roots = NO_ROOTS  # trees that have timed out
    failed: Sequence[Failed] = ()
    opened: Opened | None = None  # if the task is a spout's

    @property
    def size(self) -> int:
        """The number of roots in all parts together."""
        arrays = [self.roots, self.held, self.reset, self.expired]
        arrays += [failed.roots for failed in self.failed]
        return sum(map(len, arrays)) + (0 if self.opened is None else len(self.opened.roots))

    def between(self, first: int | None, end: int | None) -> "Contribution":
        """Return the news about the roots from `first` until before `end`; None is no limit. Copies no array."""

        def cut(roots: Roots) -> slice:
            start = 0 if first is None else int(np.searchsorted(roots, np.uint64(first)))
            return slice(start, len(roots) if end is None else int(np.searchsorted(roots, np.uint64(end))))

        opened = self.opened
        if opened is not None:
            part = cut(opened.roots)
            opened = opened._replace(roots=opened.roots[part], places=opened.places[part])
        part = cut(self.roots)
        return Contribution(
            self.task_id,
            self.roots[part],
            self.xors[part],
            self.held[cut(self.held)],
            self.reset[cut(self.reset)],
            self.expired[cut(self.expired)],
            [each._replace(roots=each.roots[cut(each.roots)]) for each in self.failed],
            opened,
        )


def encode_blob(news: Contribution) -> bytes:
    """Encode the news for one acker; without news this takes 14 to 16 bytes."""
    arrays = [_root_bytes(roots) for roots in (news.roots, news.xors, news.held, news.reset, news.expired)]
    failed = [[each.component, each.task_index, each.reason, _root_bytes(each.roots)] for each in news.failed]
    opened = None
    if news.opened is not None:
        roots, places, bounds, msg_ids = news.opened
        opened = [_root_bytes(roots), _small_bytes(places), _small_bytes(bounds), msg_ids]
    return pack([news.task_id, *arrays, failed, opened])


def decode_blob(data: bytes) -> Contribution:
    """Decode a blob. Raises `SerializationError` if it is damaged."""
    try:
        task_id, roots, xors, held, reset, expired, failed, opened = unpack(data)
        news = Contribution(
            _task(task_id),
            _roots(roots),
            _numbers(xors),
            _roots(held),
            _roots(reset),
            _roots(expired),
            [_failed(*each) for each in failed],
            None if opened is None else _opened(*opened),
        )
        if len(news.roots) != len(news.xors):
            raise ValueError("it has another number of roots than of XORs")
        if not news.xors.all():
            raise ValueError("one of its XORs is zero")
    except (TypeError, ValueError) as error:
        raise SerializationError(f"a blob of {len(data)} bytes to an acker cannot be read: {error}") from error
    return news


def _root_bytes(roots: Roots) -> bytes:
    return roots.astype("<u8", copy=False).tobytes()


def _small_bytes(numbers: Numbers) -> bytes:
    return numbers.astype("<u4", copy=False).tobytes()


def _numbers(data: Any) -> Roots:
    return np.frombuffer(data, "<u8").astype(np.uint64, copy=False)


def _small_numbers(data: Any) -> Numbers:
    return np.frombuffer(data, "<u4").astype(np.uint32, copy=False)


def _roots(data: Any) -> Roots:
    roots = _numbers(data)
    if not is_ascending(roots):
        raise ValueError("its roots are not in ascending order")
    return roots


def _task(number: Any) -> int:
    if type(number) is not int or not 0 <= number < MOST_TASKS:
        raise ValueError(f"{number!r} is not the id of a task")
    return number


def _failed(component: Any, task_index: Any, reason: Any, roots: Any) -> Failed:
    if type(component) is not str or type(reason) is not str:
        raise TypeError("the reason of a failure is not text")
    return Failed(component, _task(task_index), reason, _roots(roots))


def _opened(root_bytes: Any, place_bytes: Any, bound_bytes: Any, msg_ids: Any) -> Opened:
    roots, places, bounds = _roots(root_bytes), _small_numbers(place_bytes), _small_numbers(bound_bytes)
    if type(msg_ids) is not bytes or not len(roots) == len(places) == len(bounds) - 1:
        raise ValueError("it has another number of message ids than of trees")
    if bounds[0] != 0 or bounds[-1] != len(msg_ids) or (bounds[1:] < bounds[:-1]).any():
        raise ValueError("its message ids do not fill their bytes")
    if (places >= len(roots)).any():
        raise ValueError("a tree has no message id")
    return Opened(roots, places, bounds, msg_ids)
