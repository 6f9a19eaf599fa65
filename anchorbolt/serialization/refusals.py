"""Explains why a value cannot be encoded: names the innermost value that is to blame, and the path to it."""

from collections.abc import Callable, Iterator
from typing import Any

from anchorbolt.errors import UnsupportedValue
from anchorbolt.util.messages import shortened

REFUSALS = (UnsupportedValue, ValueError, TypeError, OverflowError, RecursionError)
"""What an encoder raises for a value that it does not take."""


def explained(value: Any, encode: Callable[[Any], bytes], error: Exception) -> UnsupportedValue:
    """Return the error for a value that `encode` has refused with `error`."""
    path = ""
    while not _is_too_deep(error):
        found = _refused_part(value, encode)
        if found is None:
            break
        step, value, error = found
        path += step
    where = f"at {path}: " if path else ""
    if isinstance(error, UnsupportedValue):
        return UnsupportedValue(f"{where}{error.message}")
    what = f"{where}cannot encode {shortened(value)}, a value of type {type(value).__name__}"
    if _is_too_deep(error):
        return UnsupportedValue(f"{what}: it is nested too deep, or holds itself. Nest values less deep.")
    return UnsupportedValue(f"{what}: {str(error).rstrip('. ')}. Use plain values, and text that is valid Unicode.")


def _refused_part(value: Any, encode: Callable[[Any], bytes]) -> tuple[str, Any, Exception] | None:
    for step, part in _parts(value):
        try:
            encode(part)
        except REFUSALS as error:
            return step, part, error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        yield from ((f"[{position}]", part) for position, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{…}", part) for part in value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield ".keys()", key
            yield f"[{shortened(key, 40)}]", part


def _is_too_deep(error: Exception) -> bool:
    return isinstance(error, RecursionError) or "recursion limit" in str(error)
