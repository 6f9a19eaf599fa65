"""Numbers of a state in a NumPy column, for the bulk methods: one look-up for a key, then no Python objects.

In dicts, each key is looked up to read it, to write it and to note the update: that took two to four times as long.
This module imports NumPy, so only the bulk methods import it.
"""

from collections.abc import Container, Iterable, Sequence
from itertools import islice, repeat
from typing import Any

import numpy as np

from anchorbolt.state_backends.encoding import CacheKey

Slots = np.ndarray[Any, np.dtype[np.int64]]
Numbers = np.ndarray[Any, Any]
"""Of int64 or float64."""

_FIRST_SIZE = 1024


class NumberColumn:
    """Cached entries: keys that are str or int, and values that are ints of 64 bits or floats. Each key has a slot."""

    def __init__(self) -> None:
        self._slots: dict[CacheKey, int] = {}  # oldest first
        self._keys: list[CacheKey] = []  # by slot; a removed key stays until `_keep`
        self._bits = np.empty(_FIRST_SIZE, np.int64)  # of a number
        self._is_float = np.empty(_FIRST_SIZE, np.bool_)
        self._dirty = np.zeros(_FIRST_SIZE, np.bool_)
        self.renumbered = 0  # how often the slots have changed

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: CacheKey) -> bool:
        return key in self._slots

    def keys(self) -> list[CacheKey]:
        """Return all keys."""
        return list(self._slots)

    @property
    def updates(self) -> int:
        """The number of updates that are not staged."""
        return int(np.count_nonzero(self._dirty))

    def slots_of(self, keys: Sequence[CacheKey]) -> Slots:
        """Return the slots of keys; -1 for a key that is not in the column."""
        return np.fromiter(map(self._slots.get, keys, repeat(-1)), np.int64, len(keys))

    def numbers_at(self, slots: Slots, kind: Any) -> Numbers | None:
        """Return a copy of the numbers in slots; None if they are not of the kind `np.int64` or `np.float64`.

        The number of slot -1 is any number.
        """
        are_floats = self._is_float[slots]
        if np.any((are_floats if kind is np.int64 else ~are_floats) & (slots >= 0)):
            return None
        numbers: Numbers = self._bits[slots].view(kind)
        return numbers

    def values_at(self, slots: Slots) -> list[int | float]:
        """Return the numbers in slots, which may be of both kinds; of slot -1 any number."""
        bits = self._bits[slots]
        values: list[int | float] = bits.tolist()
        floats = np.flatnonzero(self._is_float[slots])
        for place, value in zip(floats.tolist(), bits[floats].view(np.float64).tolist(), strict=True):
            values[place] = value
        return values

    def get(self, key: CacheKey) -> int | float | None:
        slot = self._slots.get(key)
        return None if slot is None else self._number(slot)

    def _number(self, slot: int) -> int | float:
        bits = self._bits[slot]
        return float(bits.view(np.float64)) if self._is_float[slot] else int(bits)

    def update(self, slots: Slots, numbers: Numbers) -> None:
        """Set the numbers in slots, and note them as updates."""
        self._bits[slots] = numbers.view(np.int64)
        self._is_float[slots] = numbers.dtype == np.float64
        self._dirty[slots] = True

    def append(self, keys: Sequence[CacheKey], numbers: Numbers) -> None:
        """Add keys that are not in the column, as updates."""
        if len(self._keys) > 2 * len(self._slots) + _FIRST_SIZE:
            self._keep(dict(self._slots))
        start = len(self._keys)
        end = start + len(keys)
        if end > len(self._bits):
            more = np.zeros(max(end, 2 * start) - len(self._bits), np.bool_)
            self._bits = np.concatenate([self._bits, more.astype(np.int64)])
            self._is_float = np.concatenate([self._is_float, more])
            self._dirty = np.concatenate([self._dirty, more])
        self._slots.update(zip(keys, range(start, end), strict=True))
        self._keys += keys
        self.update(np.arange(start, end), numbers)

    def pop(self, key: CacheKey) -> tuple[int | float, bool] | None:
        """Remove a key. Return its number, and whether it is an update; None if it is not in the column."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return None
        removed = self._number(slot), bool(self._dirty[slot])
        self._dirty[slot] = False
        return removed

    def remove(self, keys: Iterable[CacheKey]) -> None:
        """Forget keys, some of which may not be in the column, with their updates."""
        slots = [slot for slot in map(self._slots.pop, keys, repeat(None)) if slot is not None]
        self._dirty[slots] = False

    def updated(self) -> tuple[list[CacheKey], list[int | float]]:
        """Return the keys and numbers of the updates that are not staged."""
        slots = np.flatnonzero(self._dirty)
        return [self._keys[slot] for slot in slots.tolist()], self.values_at(slots)

    def note_staged(self) -> None:
        """All updates are staged."""
        self._dirty[:] = False

    def drop_oldest(self, entries: int) -> None:
        """Forget entries. There must be no updates among them."""
        self._keep(dict(islice(self._slots.items(), entries, None)))

    def keep_updates(self, wanted: Container[CacheKey] = ()) -> None:
        """Forget all entries except updates and `wanted` keys."""
        self._keep({key: slot for key, slot in self._slots.items() if self._dirty[slot] or key in wanted})

    def _keep(self, slots: dict[CacheKey, int]) -> None:
        kept = np.fromiter(slots.values(), np.int64, len(slots))
        bits, is_float, dirty = self._bits[kept], self._is_float[kept], self._dirty[kept]
        self._keys = list(slots)
        self._slots = dict(zip(self._keys, range(len(slots)), strict=True))
        self._bits = np.empty(max(len(slots), _FIRST_SIZE), np.int64)
        self._is_float, self._dirty = np.zeros((2, len(self._bits)), np.bool_)
        part = slice(len(slots))
        self._bits[part], self._is_float[part], self._dirty[part] = bits, is_float, dirty
        self.renumbered += 1
