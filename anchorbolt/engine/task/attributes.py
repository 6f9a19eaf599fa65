"""Notices attributes of a bolt that its tuples change, because another instance of the task does not have them.

It compares what `vars(bolt)` holds at the begin and at the end of a wave, so a tuple costs nothing. It compares in the
waves 1, 2, 4, 8 and so on of an instance, and of a large container only its length and its first items. It looks at
plain values and containers: a connection, a lock, a cache of `functools.lru_cache` or another object is never compared.
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
"""None, or no attribute: what is first set while a tuple is executed may be prepared as late as that."""

Digest = tuple[Any, ...]


class InitialValues:
    """What the attributes of a stateful bolt's task began with, in an instance whose tuples changed them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Digest, Fence]] = {}

    def changed(self, name: str, initial: Digest, fence: Fence) -> None:
        self._known[name] = initial, fence

    def lost(self, digests: Mapping[str, Digest], current: Round) -> list[str]:
        """Return the attributes that a new instance begins with as the old one did.

        They lost what the old instance kept. An attribute that `init_state` takes from the state begins with another
        value, and what a rolled back round changed had to be forgotten.
        """
        return [
            name
            for name, (initial, fence) in self._known.items()
            if fence != current.fence and not current.was_rolled_back(fence) and digests.get(name) == initial
        ]


class AttributeWatch:
    """Watches the attributes of one instance of a bolt.

    A plain bolt's instance is used again whatever other instances have done, so each change counts. A stateful bolt's
    attributes may follow from its state, so there a change counts when a new instance does not have it.
    """

    def __init__(self, bolt: object, initial_values: InitialValues | None) -> None:
        """Create it; `initial_values` are those of a stateful bolt's task, None for a plain bolt."""
        self._bolt = bolt
        # Until Python 3.12 the interpreter reads attributes slowly from an object whose `__dict__` was asked for, and
        # fast from one that was given a dict.
        if type(getattr(bolt, "__dict__", None)) is dict:
            object.__setattr__(bolt, "__dict__", {**vars(bolt)})
        self._initial_values = initial_values
        self._fence: Fence | None = None
        self._before: dict[str, Digest] | None = None
        self._lost: list[str] = []
        self._waves = 0
        # `self.count += 1` begins with what the class says.
        of_class = {name: value for kind in reversed(type(bolt).__mro__) for name, value in vars(kind).items()}
        self._of_class = {name: value for name, value in of_class.items() if isinstance(value, _PLAIN)}

    def begin(self, current: Round) -> None:
        """A round begins, and `init_state` has been called."""
        first = self._fence is None
        self._fence = current.fence
        self._before = self._digests() if self._waves & (self._waves + 1) == 0 else None
        if first and self._initial_values is not None and self._before is not None:
            self._lost = self._initial_values.lost(self._before, current)

    def end(self) -> list[str]:
        """A round with tuples has ended well: return the names of the attributes that tuples changed, or lost."""
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
    except Exception:  # of a user's class, or of a container that a thread changes just now
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
