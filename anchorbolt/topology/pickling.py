"""Finds which part of an object keeps it from being pickled. Looks only; calls nothing but what pickling calls."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle


@dataclass(frozen=True)
class Unpicklable:
    """The innermost part of an object that cannot be pickled.

    Attributes:
        path: Where it is, as in `count.helper.lock`.
        type_name: Name of its type, with its module unless that is `builtins`.
        reason: What pickling said, in one line.
    """

    path: str
    type_name: str
    reason: str


def find_unpicklable(name: str, value: object) -> Unpicklable | None:
    """Return what keeps `value` from being pickled as Spark does it, or None where it can be.

    Args:
        name: What the path is to start with.
        value: The object.
    """
    failure = _failure(value)
    if failure is None:
        return None
    path, culprit = name, value
    seen = {id(value)}
    descending = True
    while descending:
        descending = False
        for suffix, part in _parts(culprit):
            if id(part) in seen:
                continue
            seen.add(id(part))
            part_failure = _failure(part)
            if part_failure is not None:
                path, culprit, failure, descending = path + suffix, part, part_failure, True
                break
    kind = type(culprit)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    lines = str(failure).splitlines() or [""]
    return Unpicklable(path, f"{module}{kind.__qualname__}", f"{type(failure).__name__}: {lines[0]}")


def _failure(value: object) -> Exception | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:  # whatever a user's __reduce__ or __getstate__ raises
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what pickling an object by value would pickle next, each with what to add to the path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"[{key!r}]", item
            yield f" key {key!r}", key
    elif isinstance(value, (list, tuple, set, frozenset)):
        for position, item in enumerate(value):
            yield f"[{position}]", item
    elif isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield "", value.__func__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, type):
        for name, member in vars(value).items():
            if isinstance(member, types.FunctionType | staticmethod | classmethod):
                yield f".{name}", getattr(member, "__func__", member)
            elif not name.startswith("__") and name != "_abc_impl":
                yield f".{name}", member
    else:
        for name, attribute in _state(value).items():
            yield f".{name}", attribute
        yield f" (class {type(value).__name__})", type(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f" (variable {name})", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in code.co_names:
        if name in function.__globals__:
            yield f" (global {name})", function.__globals__[name]
    for default in function.__defaults__ or ():
        yield " (default argument)", default


def _state(value: Any) -> dict[str, Any]:
    """Return the attributes that are pickled: what `__getstate__` gives, where the object has its own."""
    own = getattr(type(value), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        try:
            state = value.__getstate__()
        except Exception:
            return {}
        return dict(state) if isinstance(state, Mapping) else {"__getstate__()": state}
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                attributes.setdefault(name, getattr(value, name))
    return attributes
