"""Converts columns of keys and values to Python values, each distinct key once, and Python values to Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.errors import UnsupportedValue
from anchorbolt.state_backends.encoding import CacheKey
from anchorbolt.streams.arrow_types import refuse_mixed

if TYPE_CHECKING:
    import numpy
    import pyarrow


class DistinctKeys(NamedTuple):
    """The keys of a column: each once."""

    keys: list[Any]  # one spelling of each
    cache_keys: list[CacheKey]  # the same list if each key is its own cache key
    codes: numpy.ndarray[Any, Any] | None  # for each row, the place of its key; None if no key is repeated

    @property
    def rows(self) -> int:
        return len(self.keys) if self.codes is None else len(self.codes)

    def key_of(self, row: int) -> Any:
        return self.keys[row if self.codes is None else self.codes[row]]


def listed(values: Any) -> list[Any]:
    """Return a column as a list of Python values."""
    import numpy
    import pyarrow

    if isinstance(values, pyarrow.Array | pyarrow.ChunkedArray):
        return list(values.to_pylist())
    is_numbers = isinstance(values, numpy.ndarray) and values.dtype.kind in "biuf"
    return list(values.tolist()) if is_numbers else list(values)


def arrow_of(namespace: str, values: Any, kind: pyarrow.DataType | None) -> pyarrow.Array:
    """Return values as Arrow. Raises `UnsupportedValue` if they do not fit the type, or one inferred type."""
    import pyarrow

    try:
        if kind is None and isinstance(values, list):
            refuse_mixed(set(map(type, values)) - {type(None)})
        return pyarrow.array(values, kind)
    except (pyarrow.ArrowException, OverflowError, ValueError, TypeError) as error:
        wanted = "one type of Arrow" if kind is None else f"the type {kind}"
        raise UnsupportedValue(
            f"state {namespace!r}: values cannot be returned as {wanted}: {error}. Name a type that holds them all, or "
            "call get_many."
        ) from error


def decoded(keys: Any) -> tuple[list[Any], numpy.ndarray[Any, Any] | None, bool]:
    """Return keys as Python values, and the place of each row's key among them; None if that is the row itself.

    The third result says whether Arrow has made them distinct: then each text and each int is there once.
    """
    import numpy
    import pyarrow

    if isinstance(keys, pyarrow.ChunkedArray):
        keys = keys.unify_dictionaries().combine_chunks()
    if not isinstance(keys, pyarrow.Array):
        return listed(keys), None, False
    are_distinct = not isinstance(keys, pyarrow.DictionaryArray)
    if are_distinct:
        try:
            keys = keys.dictionary_encode()
        except NotImplementedError:  # such as lists, which are not keys either, and UUIDs
            return listed(keys), None, False
    codes, values = keys.indices.cast(pyarrow.int64()), keys.dictionary
    places = codes.fill_null(len(values)).to_numpy()
    used = numpy.zeros(len(values) + 1, bool)
    used[places] = True
    # A dictionary may have values for other rows, as that of a slice has.
    if not used[:-1].all():
        values = values.filter(pyarrow.array(used[:-1]))
        places = (numpy.cumsum(used) - 1)[places]
    found = values.to_pylist()
    if used[-1]:
        found.append(None)
    in_order = len(found) == len(places) and bool((places[1:] > places[:-1]).all())
    return found, None if in_order else places, are_distinct
