"""Finds the attribute that keeps an object from being pickled, by pickling its parts one by one."""

import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cloudpickle


class Unpicklable(NamedTuple):
    """The innermost part of an object that cannot be pickled."""

    path: str  # such as `count.helper.lock`
    type_name: str
    reason: str  # the first line of the pickling error


def find_unpicklable(name: str, value: object) -> Unpicklable | None:
    """Return the part of `value` that Spark cannot pickle, or None; its path starts with `name`."""
    error = _pickling_error(value)
    if error is None:
        return None
    seen = {id(value)}
    culprit: tuple[str, object, Exception] | None = (name, value, error)
    while culprit is not None:
        path, value, error = culprit
        culprit = _culprit_in(path, value, seen)
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    reason = (str(error).splitlines() or [""])[0]
    return Unpicklable(path, f"{module}{kind.__qualname__}", f"{type(error).__name__}: {reason}")


def _culprit_in(path: str, value: object, seen: set[int]) -> tuple[str, object, Exception] | None:
    for suffix, part in _parts(value):
        if id(part) not in seen:
            seen.add(id(part))
            error = _pickling_error(part)
            if error is not None:
                return path + suffix, part, error
    return None


def _pickling_error(value: object) -> Exception | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:  # a user's __reduce__ or __getstate__ may raise anything
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that are pickled with `value`, each with the suffix of its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"[{key!r}]", item
    elif isinstance(value, list | tuple | set | frozenset):
        for position, item in enumerate(value):
            yield f"[{position}]", item
    elif isinstance(value, types.FunctionType):
        variables = inspect.getclosurevars(value)
        for name, item in {**variables.globals, **variables.nonlocals}.items():
            yield f" (variable {name})", item
    elif isinstance(value, type):
        for name, member in vars(value).items():
            if isinstance(member, types.FunctionType) or not name.startswith("_"):
                yield f".{name}", inspect.unwrap(getattr(member, "__func__", member))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    else:
        for name, item in _state(value).items():
            yield f".{name}", item
        yield f" (class {type(value).__name__})", type(value)


def _state(value: Any) -> Mapping[str, Any]:
    """Return the attributes that are pickled: from `__getstate__`, else from `__dict__` and `__slots__`."""
    try:
        reduced = value.__reduce_ex__(2)
    except Exception:
        return {}
    state = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
    found: dict[str, Any] = {}
    for attributes in state if isinstance(state, tuple) else (state,):  # a tuple holds __dict__ and __slots__
        found.update(attributes if isinstance(attributes, Mapping) else {})
    return found
