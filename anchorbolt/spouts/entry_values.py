"""Turns the fields of a Redis stream's entry into the values of a tuple."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


def values_of(names: Sequence[bytes], decode: bool) -> Callable[[dict[bytes, bytes]], tuple[Any, ...]]:
    """Return a function from an entry's fields to a tuple's values. It is called for each entry."""
    get = itemgetter(*names)
    single = len(names) == 1

    def of_entry(fields: dict[bytes, bytes]) -> tuple[Any, ...]:
        try:
            found = get(fields)
            if not decode:
                return (found,) if single else found
            return (found.decode(),) if single else tuple([value.decode() for value in found])
        except (KeyError, UnicodeDecodeError):
            return tuple([_decoded(fields.get(name), decode) for name in names])

    return of_entry


def _decoded(value: bytes | None, decode: bool) -> bytes | str | None:
    if value is None or not decode:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
