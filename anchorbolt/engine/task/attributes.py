"""Notices attributes of a bolt that its tuples change, because another instance of the task lacks the change.

It compares `vars(bolt)` at the begin and the end of a wave, so a tuple costs nothing. It does so in the waves 1, 2, 4,
8 and so on of an instance. Of a large container it compares only the length and the first items. It compares only plain
values and containers, never a connection, a lock, a cache of `functools.lru_cache` or another object.
"""

from __future__ import annotations

import datetime as dt
import numbers
import uuid
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from anchorbolt.checkpoint.ports import Round
from anchorbolt.state_backends.state import Fence

_PLAIN = (str, bytes, numbers.Number, dt.date, dt.time, dt.timedelta, uuid.UUID)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, bytearray)
_ITEMS = 64
_DEPTH = 3

_OTHER = ("other object",)
_UNSET = ("nothing yet",)
"""None, or no attribute: a bolt may prepare an attribute as late as in its first tuple."""

Digest = tuple[Any, ...]


class InitialValues:
    """The initial values of attributes of a stateful bolt's task that the tuples of an instance have changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Digest, Fence]] = {}

    def changed(self, name: str, initial: Digest, fence: Fence) -> None:
        self._known[name] = initial, fence

    def lost(self, digests: Mapping[str, Digest], current: Round) -> list[str]:
        """Return the attributes that a new instance begins with the same value as the old one.

        They lost the old instance's changes. An attribute that `init_state` takes from the state begins with another
        value, and the changes of a rolled back round had to be lost.
        """
        return [
            name
            for name, (initial, fence) in self._known.items()
            if fence != current.fence and not current.was_rolled_back(fence) and digests.get(name) == initial
        ]


class AttributeWatch:
    """Watches the attributes of one instance of a bolt.

    A plain bolt's instance is reused regardless of other instances, so each change counts. A stateful bolt's attributes
    may follow from its state, so a change counts only once a new instance lacks it.
    """

    def __init__(self, bolt: object, initial_values: InitialValues | None) -> None:
        """Create it; `initial_values` belong to a stateful bolt's task, None for a plain bolt."""
        self._bolt = bolt
        # Until Python 3.12 reading attributes is slow after `__dict__` of an object was read, but fast after it was
        # set.
        if type(getattr(bolt, "__dict__", None)) is dict:
            object.__setattr__(bolt, "__dict__", {**vars(bolt)})
        self._initial_values = initial_values
        self._fence: Fence | None = None
        self._before: dict[str, Digest] | None = None
        self._lost: list[str] = []
        self._waves = 0
        # `self.count += 1` begins with the class attribute.
        of_class = {name: value for kind in reversed(type(bolt).__mro__) for name, value in vars(kind).items()}
        self._of_class = {name: value for name, value in of_class.items() if isinstance(value, _PLAIN)}

    def begin(self, current: Round) -> None:
        """Note that a round begins, after `init_state` was called."""
        first = self._fence is None
        self._fence = current.fence
        self._before = self._digests() if self._waves & (self._waves + 1) == 0 else None
        if first and self._initial_values is not None and self._before is not None:
            self._lost = self._initial_values.lost(self._before, current)

    def end(self) -> list[str]:
        """Note that a round with tuples has succeeded; return the attributes that tuples changed, or that were lost."""
        self._waves += 1
        if self._before is None or self._fence is None:
            return []
        changed = []
        for name, after in self._digests().items():
            before = self._before.get(name, _UNSET)
            if before != after and not {before[0], after[0]} & {_OTHER[0], _UNSET[0]}:
                changed.append(name)
        if self._initial_values is None:
            return changed
        for name in changed:
            self._initial_values.changed(name, self._before[name], self._fence)
        return self._lost

    def _digests(self) -> dict[str, Digest]:
        attributes = self._of_class | getattr(self._bolt, "__dict__", {})
        return {name: _guarded(value) for name, value in attributes.items()}


def _guarded(value: Any) -> Digest:
    try:
        digest = _digest(value, _DEPTH)
        hash(digest)
    except Exception:  # from a user's class, or a container that another thread is changing
        return _OTHER
    return digest


def _digest(value: Any, depth: int) -> Digest:
    if value is None:
        return _UNSET
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if not isinstance(value, _CONTAINERS):
        return _OTHER if depth == _DEPTH else (type(value), id(value))
    if depth == 0:
        return (type(value), len(value))
    first = islice(value.items() if isinstance(value, dict) else value, _ITEMS)
    items = [_digest(item, depth - 1) for item in first]
    return (type(value), len(value), frozenset(items) if isinstance(value, set | frozenset) else tuple(items))
