"""The kinds of windows by time, one window, and how its value is made. Pure.

All windows are [start, end). Tumbling and sliding ones are aligned to 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import gcd
from typing import Any, Protocol

from anchorbolt.errors import TopologyError
from anchorbolt.serialization import pack
from anchorbolt.util.keys import canonical_key
from anchorbolt.util.times import Duration, positive_ms, to_datetime


@dataclass(frozen=True, slots=True)
class Window:
    """The window that `close` is called for."""

    start: int  # ms since 1970
    end: int  # ms since 1970; not part of the window
    is_update: bool = False  # whether the window was closed before, and has had late tuples since

    @property
    def start_time(self) -> datetime:
        """Its start, in UTC."""
        return to_datetime(self.start)

    @property
    def end_time(self) -> datetime:
        """Its end, in UTC."""
        return to_datetime(self.end)


class Tumbling:
    """Windows of one length that follow each other."""

    def __init__(self, length: Duration) -> None:
        """Create it. Raises `TopologyError` if `length` is not a duration above zero."""
        self.length_ms = self.every_ms = _ms("length", length)

    def __repr__(self) -> str:
        return f"Tumbling('{self.length_ms} ms')"

    @property
    def pane_ms(self) -> int:
        """The length of a pane: the longest part that divides all windows, so that windows can share it."""
        return gcd(self.length_ms, self.every_ms)

    def starts(self, at: int) -> range:
        """Return the starts of the windows that contain a point in time, or a pane that starts there."""
        last = at - at % self.every_ms
        first = last - (self.length_ms - 1 - at + last) // self.every_ms * self.every_ms
        return range(first, last + 1, self.every_ms)


class Sliding(Tumbling):
    """Overlapping windows of one length; a new one starts after each interval `every`."""

    def __init__(self, length: Duration, every: Duration) -> None:
        """Create it.

        Raises `TopologyError` if an argument is not a duration above zero, or `every` is longer than `length`: tuples
        between two windows would be lost.
        """
        super().__init__(length)
        self.every_ms = _ms("every", every)
        if self.every_ms > self.length_ms:
            raise TopologyError(
                f"Sliding({length!r}, every={every!r}) has windows with gaps between them. Let every be at most the "
                "length."
            )

    def __repr__(self) -> str:
        return f"Sliding('{self.length_ms} ms', every='{self.every_ms} ms')"


class Session:
    """Windows that last as long as tuples of a key follow each other within `gap`; they end `gap` after the last."""

    def __init__(self, gap: Duration) -> None:
        """Create it. Raises `TopologyError` if `gap` is not a duration above zero."""
        self.gap_ms = _ms("gap", gap)

    def __repr__(self) -> str:
        return f"Session(gap='{self.gap_ms} ms')"


class Aggregate(Protocol):
    """How the values of windows are made: a bolt's methods."""

    @property
    def can_merge(self) -> bool: ...
    def create(self) -> Any: ...
    def add(self, value: Any, tup: Any) -> Any: ...
    def merge(self, one: Any, other: Any) -> Any: ...


def index_of(key: Any) -> Any:
    """Return the key by which a dict finds a key of a state: 1, 1.0 and True are equal in a dict, and three keys.

    Raises `UnsupportedValue` for a key that no state takes.
    """
    kind = type(key)
    if kind is str:
        return key
    return (kind, key) if kind in _SCALARS else pack(canonical_key(key))


_SCALARS = frozenset({int, bool, bytes, type(None)})


def _ms(name: str, duration: Duration) -> int:
    try:
        return positive_ms(duration)
    except ValueError as error:
        raise TopologyError(f"the {name} of a window is {duration!r}: {error}.") from None
