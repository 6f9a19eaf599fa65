"""The types of a sink's columns: inferred from values, joined over waves, and adapted to files. Pure.

Types are Arrow's. `null` stands for a type that is still unknown: of a column with only None, of the elements of empty
lists, of a dict's name with only None. Any later type fits it. docs/sinks.md has a table.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from anchorbolt.errors import StateCorrupted
from anchorbolt.util.messages import shortened

if TYPE_CHECKING:
    import pyarrow

_MOST_NAMES = 1000
_DIGITS, _SCALE = 38, 18  # of a decimal, Spark's defaults
_LIST_TYPES = (list, tuple, set, frozenset)
_EVOLVED = {b"evolved": b"1"}
_MICROSECOND = dt.timedelta(microseconds=1)
_AS_OTHERS: dict[type, Callable[[Any], Any]] = {
    uuid.UUID: str,
    dt.time: dt.time.isoformat,
    dt.timedelta: lambda value: value // _MICROSECOND,
}


class Misfit(ValueError):
    """A value does not fit its column. The message completes "the value …, because"."""


def kinds_of(values: Iterable[Any]) -> set[type]:
    """Return the Python types of values. Faster than a set of all their types if equal types are adjacent."""
    return {kind for kind, _ in groupby(values, type)}


def type_of(values: Sequence[Any]) -> pyarrow.DataType:
    """Return the type that a column of these values gets. Raises `Misfit` if no type fits them all.

    The type is wide, so that other ordinary values fit too: an int has 64 bits; a decimal has 38 digits, 18 of them
    after the point unless a value needs more before it; a time with a zone is in UTC.
    """
    import pyarrow as pa

    kinds = kinds_of(values) - {type(None)}
    if not kinds:
        return pa.null()
    if kinds <= {dict}:
        return _type_of_dicts([value for value in values if value is not None])
    if kinds <= set(_LIST_TYPES):
        return pa.list_(type_of(list(chain.from_iterable(value for value in values if value is not None))))
    if kinds == {int, float}:
        return pa.float64()
    if len(kinds) > 1:
        raise Misfit(f"values of the types {', '.join(sorted(kind.__name__ for kind in kinds))} have no type in common")
    [kind] = kinds
    if kind is dt.datetime:
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if len(zoned) > 1:
            raise Misfit("times with a zone and times without one have no type in common")
        return pa.timestamp("us", "UTC" if zoned == {True} else None)
    if kind is decimal.Decimal:
        highest = max(map(decimal.Decimal.adjusted, filter(None, values)), default=0)  # power of ten
        return pa.decimal128(_DIGITS, _SCALE if highest < _DIGITS - _SCALE else max(0, _DIGITS - 1 - highest))
    scalars: Mapping[type, pyarrow.DataType] = {
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bytes: pa.binary(),
        dt.date: pa.date32(),
        uuid.UUID: pa.string(),
        dt.time: pa.string(),
        dt.timedelta: pa.int64(),
    }
    if kind not in scalars:
        raise Misfit(f"a {kind.__name__} has no type in a file")
    return scalars[kind]


def _type_of_dicts(values: Sequence[dict[Any, Any]]) -> pyarrow.DataType:
    import pyarrow as pa

    names = dict.fromkeys(chain.from_iterable(values))
    if any(type(name) is not str for name in names):
        return pa.map_(type_of(list(names)), type_of(list(chain.from_iterable(value.values() for value in values))))
    _check_names(len(names))
    return pa.struct([(name, type_of([value.get(name) for value in values])) for name in names])


def _check_names(number: int) -> None:
    if number > _MOST_NAMES:
        raise Misfit(
            f"a dict with more than {_MOST_NAMES} names is no struct; declare its column as pyarrow.map_(…) instead"
        )


def joined(known: pyarrow.DataType, found: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type of a column with values of both types. Raises `Misfit`.

    A whole number fits into an existing column of floats or decimals, but not the reverse: files with whole numbers
    cannot be read as floats or decimals.
    """
    import pyarrow as pa

    if known.equals(found) or pa.types.is_null(found):
        return known
    if pa.types.is_null(known):
        return found
    nothing = pa.struct([])  # of empty dicts
    if (pa.types.is_map(known) and found == nothing) or (pa.types.is_map(found) and known == nothing):
        return known if found == nothing else found
    if pa.types.is_list(known) and pa.types.is_list(found):
        return pa.list_(joined(known.value_type, found.value_type))
    if pa.types.is_map(known) and pa.types.is_map(found):
        return pa.map_(joined(known.key_type, found.key_type), joined(known.item_type, found.item_type))
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        types = {field.name: field.type for field in known}
        for field in found:
            types[field.name] = joined(types.get(field.name, pa.null()), field.type)
        _check_names(len(types))
        return pa.struct(list(types.items()))
    if pa.types.is_map(known) and pa.types.is_struct(found):  # of a dict whose keys are text
        values = pa.null()
        for field in found:
            values = joined(values, field.type)
        return pa.map_(joined(known.key_type, pa.string()), joined(known.item_type, values))
    if pa.types.is_decimal(known) and pa.types.is_decimal(found):
        return known  # whether a value fits depends on its digits
    if pa.types.is_int64(found) and (pa.types.is_floating(known) or pa.types.is_decimal(known)):
        return known
    raise Misfit(f"the column has the type {known}, and the value {found}")


def is_whole(kind: pyarrow.DataType) -> bool:
    """Return whether a type is final: neither unknown nor nested."""
    import pyarrow as pa

    return not (pa.types.is_null(kind) or pa.types.is_nested(kind))


def is_readable_as(old: pyarrow.DataType, new: pyarrow.DataType) -> bool:
    """Return whether Spark reads files with the type `old` as `new`: `new` is equal, has more names, or is wider."""
    import pyarrow as pa

    is_type = pa.types
    if old.equals(new) or is_type.is_null(old):
        return True
    if is_type.is_struct(old) and is_type.is_struct(new):
        types = {field.name: field.type for field in new}
        return all(field.name not in types or is_readable_as(field.type, types[field.name]) for field in old)
    if is_type.is_list(old) and is_type.is_list(new):
        return is_readable_as(old.value_type, new.value_type)
    if is_type.is_map(old) and is_type.is_map(new):
        return is_readable_as(old.key_type, new.key_type) and is_readable_as(old.item_type, new.item_type)
    if is_type.is_timestamp(old) and is_type.is_timestamp(new):
        return (old.unit, old.tz is None) == (new.unit, new.tz is None)
    if is_type.is_signed_integer(old) and is_type.is_signed_integer(new):
        return bool(old.bit_width <= new.bit_width)
    if is_type.is_signed_integer(old) and is_type.is_decimal(new):
        return bool(new.precision - new.scale >= (20 if is_type.is_int64(old) else 10))
    if is_type.is_signed_integer(old) and is_type.is_float64(new):
        return bool(old.bit_width <= 32)
    if is_type.is_float32(old):
        return bool(is_type.is_float64(new))
    if is_type.is_decimal(old) and is_type.is_decimal(new):
        return bool(old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale)
    return False


def grown(known: pyarrow.Schema, found: pyarrow.Schema) -> pyarrow.Schema:
    """Return the columns of a sink after files with the columns `found`. Raises `Misfit`, which names the column."""
    import pyarrow as pa

    types = {field.name: field.type for field in known}
    for field in found:
        before = types.get(field.name, pa.null())
        try:
            types[field.name] = joined(before, field.type)
        except Misfit as error:
            if not is_readable_as(before, field.type):
                raise Misfit(f"column {field.name!r}: {error}") from None
            types[field.name] = field.type
    return pa.schema(list(types.items()))


def in_file(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return a column's type in a file, without the names of structs that have no type yet; None to omit the column.

    Parquet has no struct without names, and a column of unknown type would conflict with later values.
    """
    import pyarrow as pa

    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        return pa.list_(in_file(kind.value_type) or pa.null())
    if pa.types.is_map(kind):
        return pa.map_(in_file(kind.key_type) or pa.null(), in_file(kind.item_type) or pa.null())
    if pa.types.is_struct(kind):
        fields = [(field.name, written) for field in kind if (written := in_file(field.type)) is not None]
        return pa.struct(fields) if fields else None
    return kind


def for_readers(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return a type with which Spark can read a file: unknown types become text, unknown element types an int."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pa.list_(pa.int32() if in_file(kind.value_type) is None else for_readers(kind.value_type))
    if pa.types.is_map(kind):
        values = pa.int32() if in_file(kind.item_type) is None else for_readers(kind.item_type)
        return pa.map_(for_readers(kind.key_type), values)
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct([(field.name, for_readers(field.type)) for field in kind])
    return pa.string() if pa.types.is_null(kind) or pa.types.is_struct(kind) else kind


def has_unknown_elements(kind: pyarrow.DataType) -> bool:
    """Return whether a file with this type has lists or maps with untyped elements, which only numbers fit."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return bool(pa.types.is_null(kind.value_type)) or has_unknown_elements(kind.value_type)
    if pa.types.is_map(kind):
        return bool(pa.types.is_null(kind.item_type)) or has_unknown_elements(kind.item_type)
    return bool(pa.types.is_struct(kind)) and any(has_unknown_elements(field.type) for field in kind)


def array_of(values: Sequence[Any], kind: pyarrow.DataType, kinds: Set[type] | None = None) -> pyarrow.Array:
    """Return a column of these values. Raises `Misfit` if a value does not fit, or would lose a part.

    `kinds` are the Python types of the values, if known.
    """
    import pyarrow as pa

    lost: type | None = None  # a type that Arrow would accept and change
    if pa.types.is_string(kind):
        lost = bytes
    elif pa.types.is_binary(kind):
        lost = str
    elif pa.types.is_date(kind):
        lost = dt.datetime
    elif pa.types.is_integer(kind):
        lost = float
    if lost is not None and lost in (kinds or kinds_of(values)):
        raise Misfit(f"the column has the type {kind}, and the value is a {lost.__name__}")
    if pa.types.is_timestamp(kind) and any(
        (value.tzinfo is None) != (kind.tz is None) for value in values if type(value) is dt.datetime
    ):
        raise Misfit(f"the column has times {'without' if kind.tz is None else 'with'} a zone")
    problem: Exception
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        problem = error
    try:
        return pa.array([_stored(value, kind) for value in values], type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise Misfit(str(problem)) from problem


def _stored(value: Any, kind: pyarrow.DataType) -> Any:
    """Convert a value to a form that Arrow accepts for a different type, such as a UUID to text."""
    import pyarrow as pa

    if value is None or pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind) and isinstance(value, _LIST_TYPES):
        return [_stored(each, kind.value_type) for each in value]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {field.name: _stored(value.get(field.name), field.type) for field in kind}
    if isinstance(value, dict) and pa.types.is_map(kind):
        return [(_stored(key, kind.key_type), _stored(each, kind.item_type)) for key, each in value.items()]
    convert = _AS_OTHERS.get(type(value))
    is_wanted = pa.types.is_integer(kind) if type(value) is dt.timedelta else pa.types.is_string(kind)
    return convert(value) if convert is not None and is_wanted else value


def schema_of(types: Iterable[tuple[str, pyarrow.DataType]], *, evolved: bool = False) -> bytes:
    """Encode columns for the decision record; `evolved` if they differ from the sink's first file."""
    import pyarrow as pa

    data: bytes = pa.schema(list(types), _EVOLVED if evolved else None).serialize().to_pybytes()
    return data


def has_evolved(schema: pyarrow.Schema) -> bool:
    """Return whether these columns, encoded by `schema_of`, differ from the sink's first file."""
    return bool(schema.metadata) and schema.metadata.items() >= _EVOLVED.items()


def read_schema(data: bytes, component: str) -> pyarrow.Schema:
    """Decode the result of `schema_of`; empty bytes mean no columns. Raises `StateCorrupted`."""
    import pyarrow as pa

    if not data:
        return pa.schema([])
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StateCorrupted(
            f"the columns of sink {component!r} in the decision record cannot be read: {shortened(str(error), 200)}"
        ) from error
