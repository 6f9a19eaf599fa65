"""Values of a store in readable form, as JSON and text, and keys as people type them.

Of a user's class only `__repr__` is called. A value that Storm wrote has its own form (docs/storm_bytes.md).

A value that JSON lacks becomes an object with one name that starts with `$`: `$bytes` (Base64), `$tuple`, `$set`,
`$frozenset`, `$map` (pairs, for a dict with other keys than plain text), `$float` (nan, inf, -inf), `$datetime`,
`$date`, `$time`, `$timedelta` (seconds), `$decimal`, `$uuid`, `$complex`; `$repr` for any other value.
"""

import ast
import datetime as dt
import decimal
import json
import math
import sys
import uuid
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from anchorbolt.util.messages import begun

_DEEPEST = 64
_SCALARS: dict[type, Callable[[Any], Any]] = {
    float: str,
    bytes: lambda data: b64encode(data).decode(),
    dt.datetime: dt.datetime.isoformat,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.timedelta: dt.timedelta.total_seconds,
    decimal.Decimal: str,
    uuid.UUID: str,
    complex: str,
}


class OwnForm(ABC):
    """A value that defines its own readable form."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings, numbers and booleans."""

    @abstractmethod
    def describe(self, limit: int) -> str:
        """Return the first `limit` characters of the text for people."""


def as_json(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if isinstance(value, OwnForm):
        return value.to_json()
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind in _SCALARS:
        return {f"${kind.__name__.lower()}": _SCALARS[kind](value)}
    if depth >= _DEEPEST:
        return {"$repr": as_text(value)}
    if kind in (list, tuple, set, frozenset):
        ordered = sorted(value, key=repr) if kind in (set, frozenset) else value
        members = [as_json(member, depth + 1) for member in ordered]
        return members if kind is list else {f"${kind.__name__}": members}
    if kind is dict:
        if all(type(name) is str and not name.startswith("$") for name in value):
            return {name: as_json(member, depth + 1) for name, member in value.items()}
        return {"$map": [[as_json(name, depth + 1), as_json(each, depth + 1)] for name, each in value.items()]}
    return {"$repr": as_text(value)}


_READERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": lambda text: b64decode(text, validate=True),
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$time": dt.time.fromisoformat,
    "$timedelta": lambda seconds: dt.timedelta(seconds=seconds),
    "$decimal": decimal.Decimal,
    "$uuid": uuid.UUID,
    "$complex": complex,
    "$tuple": lambda members: tuple(map(from_json, _list(members))),
    "$set": lambda members: set(map(from_json, _list(members))),
    "$frozenset": lambda members: frozenset(map(from_json, _list(members))),
    "$map": lambda pairs: {from_json(name): from_json(each) for name, each in _list(pairs)},
}


def from_json(content: Any) -> Any:
    """Return the value for the result of `as_json`. Raises `ValueError` if it stands for no value, as `$repr`."""
    if type(content) is list:
        return list(map(from_json, content))
    if type(content) is not dict:
        return content
    if not any(name.startswith("$") for name in content):
        return {name: from_json(each) for name, each in content.items()}
    [(name, inner), *others] = content.items()
    if others or name not in _READERS:
        raise ValueError(f"{begun(str(content), 80)} stands for no value that can be read")
    try:
        return _READERS[name](inner)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"{begun(str(content), 80)} is not a {name[1:]}: {error}") from error


def _list(content: Any) -> list[Any]:
    if type(content) is not list:
        raise ValueError("it is not a list")
    return content


def printable(text: str) -> str:
    """Return a line of text; escape the whole line if it contains control characters."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def as_text(value: Any, limit: int = sys.maxsize) -> str:
    """Return a value as a Python literal of at most `limit` characters; control characters are escaped."""
    if isinstance(value, OwnForm):
        return printable(value.describe(limit))
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ may raise anything, and the value may be nested too deeply
        return f"({type(value).__name__}, whose repr raises)"
    if type(value).__module__ not in ("builtins", "datetime", "decimal", "uuid"):
        text = text.encode("unicode_escape").decode()  # a user's repr may contain anything
    return begun(text, limit)


def key_from_text(text: str) -> Any:
    r"""Return the key for a text from a command line or a page.

    The text is parsed as JSON (`7`, `true`, `"7"`; a list is a tuple), or else as a Python literal (`('a', 1)`,
    `b'\x00'`). If it is neither, the key is the text itself.
    """
    try:
        return hashable(value_from_text(text))
    except RecursionError:
        return text


def value_from_text(text: str) -> Any:
    """Return the value for a text from a command line: as `key_from_text`, but a list stays a list."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are not JSON; as keys they are text


def hashable(value: Any) -> Any:
    """Return a key for a value from JSON or a literal: a list becomes a tuple."""
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else value
