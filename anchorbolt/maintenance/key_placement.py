"""How the keys of a bolt are placed over its tasks, and what the keys that are stored prove about it. Pure.

A fields grouping sends a tuple to the task that its grouping value's hash names. The state may have that value as its
key, or a key that is made from it: windows by key have (value, start).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchorbolt.errors import MigrationRefused, UnsupportedValue
from anchorbolt.streams.hashing import destinations_of, hashes_of
from anchorbolt.util.messages import shortened

KeyFunction = Callable[[Any], Any]
"""Returns the grouping value of a key of the state."""


def whole_key(key: Any) -> Any:
    """Return the key: the tuples are grouped by it."""
    return key


def first_of_key(key: Any) -> Any:
    """Return the first item of a tuple, as for the keys of windows and of interval joins; another key as it is."""
    return key[0] if type(key) is tuple and key else key


KEY_FUNCTIONS: Mapping[str, KeyFunction] = {"key": whole_key, "key[0]": first_of_key}
"""The functions that are tried, by name."""


def tasks_of(function: KeyFunction, keys: Sequence[Any], tasks: int) -> NDArray[np.intp]:
    """Return the task of each key. Raises `MigrationRefused` if the function fails, or returns no grouping value."""
    try:
        values = keys if function is whole_key else list(map(function, keys))
    except Exception as error:
        raise MigrationRefused(
            f"the key function raised {type(error).__name__}: {error}, for a key among the {len(keys)} from "
            f"{shortened(keys[0])} on. Nothing was changed."
        ) from error
    try:
        return destinations_of(hashes_of(values), tasks)
    except UnsupportedValue as error:
        raise MigrationRefused(f"a key has no grouping value: {error.message} Nothing was changed.") from error


class Survey:
    """Reads the keys of all tasks of a bolt, and finds the function that explains in which task each one is."""

    def __init__(self, bolt: str, functions: Mapping[str, KeyFunction], before: int, after: int) -> None:
        """Create it for a bolt whose number of tasks is to change."""
        self._bolt = bolt
        self._functions = dict(functions)
        self._before = before
        self._after = after
        self._counterexamples: dict[str, tuple[Any, int, int]] = {}  # a key, its task, and the task of its hash
        self._ambiguous: list[Any] = []  # the first key that two functions send to different tasks
        self.keys = 0
        self.moving: dict[str, int] = dict.fromkeys(functions, 0)  # by function: keys that go to another task

    def add(self, task: int, keys: Sequence[Any]) -> None:
        """Take keys that are in a task."""
        if not keys:
            return
        self.keys += len(keys)
        after: list[NDArray[np.intp]] = []
        for name, function in list(self._functions.items()):
            found = tasks_of(function, keys, self._before)
            if (found != task).any():
                place = int((found != task).argmax())
                self._counterexamples[name] = keys[place], task, int(found[place])
                del self._functions[name]
                continue
            after.append(tasks_of(function, keys, self._after))
            self.moving[name] += int((after[-1] != task).sum())
        if len(after) > 1 and not self._ambiguous and (after[0] != after[1]).any():
            self._ambiguous = [keys[int((after[0] != after[1]).argmax())]]

    @property
    def fitting(self) -> Mapping[str, KeyFunction]:
        """The functions that explain in which task each key is, by name."""
        return self._functions

    def proved(self) -> str:
        """Return the name of the function. Raises `MigrationRefused` if no function, or more than one, fits."""
        if not self._functions:
            tried = "; ".join(
                f"by {name}, {shortened(key)} belongs to task {other}, but task {task} has it"
                for name, (key, task, other) in self._counterexamples.items()
            )
            raise MigrationRefused(
                f"the keys of {self._bolt!r} are not where a fields grouping puts them: {tried}. Nothing was changed. "
                "If its keys are made from the grouping value, name the function that returns the value: "
                "--key-function module:function. If it is not grouped by its keys, its state cannot be divided."
            )
        if len(self._functions) > 1 and self._ambiguous:
            raise MigrationRefused(
                f"the keys of {self._bolt!r} do not show how they were grouped: {shortened(self._ambiguous[0])} may be "
                "the grouping value, or begin with it, as the keys of windows do. Nothing was changed. Give "
                "--key-function key, or --key-function 'key[0]' for windows by key and interval joins."
            )
        return next(iter(self._functions))
