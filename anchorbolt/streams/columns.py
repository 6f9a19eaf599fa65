"""Columns of tuples: a Python list, an Arrow array, or the distinct values with a code for each tuple.

All three hold the same values: a row bolt gets the same Python objects from each of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.streams.arrow_types import refuse_mixed
from anchorbolt.util.sizes import estimated_bytes

if TYPE_CHECKING:
    import numpy as np
    import pyarrow
    from numpy.typing import NDArray

    Positions = slice | NDArray[np.intp]
    """Some tuples of a batch, in order: all between two positions, perhaps in steps, or an array of positions."""

_STEP = 1024  # tuples

ALL = slice(None)
"""The positions of all tuples."""

FEW = 256
"""In a shorter column, it does not pay to look for repeated values."""


class Coded:
    """A column whose values repeat.

    Attributes:
        values: The distinct values: only str, or only int.
        codes: For each tuple, the position of its value in `values`.
    """

    __slots__ = ("codes", "values")

    def __init__(self, values: list[Any], codes: NDArray[np.integer[Any]]) -> None:
        self.values = values
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def taken(self, positions: Positions) -> Coded:
        """Return the column of some tuples, without the values that none of them has."""
        import numpy as np

        codes = self.codes[positions]
        is_used = np.zeros(len(self.values), bool)
        is_used[codes] = True
        used = np.flatnonzero(is_used).tolist()
        if len(used) == len(self.values):
            return Coded(self.values, codes)
        renumbered = np.cumsum(is_used, dtype=np.uint32)
        renumbered -= 1
        return Coded(_picked(self.values, used), renumbered[codes])

    def as_list(self) -> list[Any]:
        import numpy as np

        values = np.empty(len(self.values), object)
        values[:] = self.values
        return cast("list[Any]", values[self.codes].tolist())


_SIMPLE: dict[type, str] = {str: "string", int: "int64", float: "float64", bytes: "binary", bool: "bool"}

Column = Any
"""A `list`, a `Coded` or a `pyarrow.Array`."""


def as_list(column: Column) -> Sequence[Any]:
    """Return the values of a column."""
    if isinstance(column, list | tuple):
        return column
    if type(column) is Coded:
        return column.as_list()
    values = column.to_pylist()
    return unpack(pack(values)) if _has_zone(column.type) else values  # type: ignore[no-any-return]


def _has_zone(kind: pyarrow.DataType) -> bool:
    """Return whether the values hold times with a named zone, of which a message keeps only the offset."""
    import pyarrow as pa

    if pa.types.is_nested(kind):
        return any(_has_zone(kind.field(each).type) for each in range(kind.num_fields))
    return pa.types.is_timestamp(kind) and kind.tz is not None


def as_arrow(column: Column) -> pyarrow.Array:
    """Return a column as an Arrow array. Raises `ArrowException` or what else Arrow raises for unsupported values."""
    import pyarrow as pa

    if isinstance(column, list | tuple):
        _refuse_changed(column)
        return pa.array(column)
    if type(column) is Coded:
        values = pa.array(column.values, pa.string() if type(column.values[0]) is str else pa.int64())
        return values.take(pa.array(column.codes))
    return column


def _refuse_changed(values: Iterable[Any]) -> None:
    """Raise `TypeError` if Arrow would change values to give them one type: True becomes 1.0, a datetime a date."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    if len(kinds) == 1 and not kinds & _OPEN:
        return
    if kinds and kinds <= {list, tuple}:
        _refuse_changed(list(chain.from_iterable(value for value in values if value is not None)))
    elif kinds == {dict}:
        rows = [value for value in values if value is not None]
        for name in dict.fromkeys(chain.from_iterable(rows)):
            _refuse_changed([row.get(name) for row in rows])
    elif kinds & {set, frozenset}:
        raise TypeError("a set has no order")
    elif kinds == {dt.time} and any(value is not None and value.tzinfo is not None for value in values):
        raise TypeError("Arrow has no times of day with a zone")
    elif kinds == {dt.datetime} and len({value.tzinfo is None for value in values if value is not None}) > 1:
        raise TypeError("some times have a zone, others have none")
    else:
        refuse_mixed(kinds)


_OPEN = frozenset({list, tuple, dict, set, frozenset, dt.time, dt.datetime})  # whose values must be looked at


def as_arrow_if_plain(column: Column) -> Column:
    """Return a list whose values have all the same simple type as an Arrow array; return any other column as it is."""
    if not isinstance(column, list | tuple) or len(column) < FEW:
        return column
    import pyarrow as pa

    kinds = list(map(type, column))  # to count is faster than a set
    kind = _SIMPLE.get(kinds[0])
    try:
        return column if kind is None or kinds.count(kinds[0]) < len(kinds) else pa.array(column, kind)
    except (UnicodeEncodeError, OverflowError):
        return column


def rows_of(size: int, columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each tuple."""
    return zip(*map(as_list, columns), strict=True) if columns else iter([()] * size)


def taken(column: Column, positions: Positions) -> Column:
    """Return the column of some tuples."""
    if isinstance(column, list | tuple):
        return column[positions] if isinstance(positions, slice) else _picked(column, positions.tolist())
    if type(column) is Coded:
        return column.taken(positions)
    import pyarrow as pa

    if not isinstance(positions, slice):
        return column.take(pa.array(positions))
    start, stop, step = positions.indices(len(column))
    if step == 1:
        return column.slice(start, max(0, stop - start))
    import numpy as np

    return column.take(pa.array(np.arange(start, stop, step)))


def size_of(positions: Positions, size: int) -> int:
    """Return how many tuples are taken of `size` tuples."""
    return len(range(*positions.indices(size))) if isinstance(positions, slice) else len(positions)


def fitting(size: int, columns: Sequence[Column], most: int) -> int:
    """Return how many of the first tuples of `size` have about `most` bytes together, at least 1."""
    total = 0
    for start in range(0, size, _STEP):
        stop = min(start + _STEP, size)
        step = sum(_bytes_of(taken(column, slice(start, stop))) for column in columns)
        if total + step > most:
            return max(1, start + (stop - start) * (most - total) // step)
        total += step
    return max(1, size)


def _bytes_of(column: Column) -> int:
    if isinstance(column, list | tuple):
        return estimated_bytes(column)
    if type(column) is Coded:
        return len(column) * estimated_bytes(column.values) // max(1, len(column.values))
    if hasattr(column, "dictionary") and len(column.dictionary) > len(column):  # see `_part`
        return column.indices.nbytes + column.dictionary.nbytes * len(column) // len(column.dictionary)  # type: ignore[no-any-return]
    return column.nbytes  # type: ignore[no-any-return]


def coded(column: Column) -> Coded | None:
    """Return the column with its distinct values; None if they are of other types, or many."""
    if type(column) is Coded:
        return column
    import pyarrow as pa

    size = len(column)
    if isinstance(column, list | tuple):
        try:
            if _are_texts(column):
                column = pa.array(column, pa.string())
            elif set(map(type, column)) == {int}:
                column = pa.array(column, pa.int64())
            else:
                return None
        except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or an int of more than 64 bits
            return None
    if not pa.types.is_dictionary(column.type):
        if column.type not in (pa.string(), pa.int64()):
            return None
        column = column.dictionary_encode()
    elif column.type.value_type not in (pa.string(), pa.int64()):
        return None
    if column.null_count or column.dictionary.null_count or len(column.dictionary) > size // 2:
        return None
    return Coded(column.dictionary.to_pylist(), column.indices.to_numpy(zero_copy_only=False))


def _are_texts(column: Sequence[Any]) -> bool:
    """Return whether all values are str, or of classes below it, which arrive as str. Faster than to look at types."""
    try:
        "".join(column)
    except TypeError:
        return False
    return len(column) > 0


def _picked(values: Sequence[Any], positions: list[int]) -> list[Any]:
    if len(positions) > 1:
        return list(itemgetter(*positions)(values))
    return [values[position] for position in positions]


def to_parts(columns: Sequence[Column]) -> list[Any]:
    """Return plain values for a message, see `from_parts`: for a list itself, for the others a dict or bytes."""
    return [_part(column) for column in columns]


def _part(column: Column) -> Any:
    if isinstance(column, list | tuple):
        return column if type(column) is list else list(column)
    if type(column) is Coded:
        codes = column.codes.astype("<u2" if len(column.values) <= 1 << 16 else "<u4", copy=False)
        return {"values": column.values, "codes": codes.tobytes()}
    import pyarrow as pa

    if hasattr(column, "dictionary") and len(column.dictionary) > len(column):
        # Most values are those of other tuples: a slice keeps the whole dictionary.
        with suppress(pa.ArrowNotImplementedError):  # views of text
            column = column.dictionary_decode().cast(column.type)
    batch = pa.record_batch([column], names=[""])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_parts(parts: Sequence[Any], size: int) -> list[Column]:
    """Decode the result of `to_parts` for `size` tuples. Raises `SerializationError` if it is damaged."""
    columns = [part if type(part) is list else _column(part) for part in parts]
    if any(len(column) != size for column in columns):
        raise SerializationError(f"the columns of {size} tuples differ in length")
    return columns


def _column(part: Any) -> Column:
    if isinstance(part, dict):
        return _coded_from(part)
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(part) as reader:
            [column] = reader.read_next_batch().columns
        column.validate(full=True)  # damaged offsets would make Arrow read outside of its memory
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise SerializationError(f"a column of {len(part)} bytes cannot be read: {error}") from error
    return column


def _coded_from(part: dict[str, Any]) -> Coded:
    import numpy as np

    try:
        values = part["values"]
        codes = np.frombuffer(part["codes"], "<u2" if len(values) <= 1 << 16 else "<u4")
        if len(codes) and codes.max() >= len(values):
            raise ValueError(f"a code is above {len(values)}")
    except (KeyError, TypeError, ValueError) as error:
        raise SerializationError(f"a column with distinct values cannot be read: {error}") from error
    return Coded(values, codes)
