"""The Arrow types that a column of tuples may have: those whose values row bolts get unchanged as Python's own."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

_FITTING = (frozenset({int, float}), frozenset({int, Decimal}))


def refuse_mixed(kinds: set[type]) -> None:
    """Raise `TypeError` if Arrow would change values of these types, None left out, to give them one type.

    It makes 1.0 of True, and a date of a datetime. An int may become a float or a Decimal.
    """
    if len(kinds) > 1 and not any(kinds <= fitting for fitting in _FITTING):
        raise TypeError(f"they are of the types {', '.join(sorted(kind.__name__ for kind in kinds))}")


def wrong_types(schema: pyarrow.Schema) -> str:
    """Return the problem with the types of a stream, as a sentence with its fix; empty if there is none."""
    for field in schema:
        problem = wrong_type(field.type)
        if problem:
            return f"field {field.name!r} has the type {field.type}: {problem}"
    return ""


def wrong_type(kind: pyarrow.DataType) -> str:
    """Return why a column may not have a type, as a sentence with the fix; empty if it may."""
    import pyarrow as pa

    is_type = pa.types
    if is_type.is_dictionary(kind):
        return wrong_type(kind.value_type)
    if is_type.is_nested(kind):
        if is_type.is_map(kind) or is_type.is_union(kind) or not hasattr(kind, "num_fields"):
            return "row bolts get it as pairs. Use a list of structs, or declare the field without a type."
        return next(filter(None, (wrong_type(kind.field(each).type) for each in range(kind.num_fields))), "")
    if (is_type.is_timestamp(kind) or is_type.is_time64(kind) or is_type.is_duration(kind)) and kind.unit == "ns":
        return "Python's own types have no nanoseconds. Use microseconds: cast it to unit 'us'."
    if is_type.is_date64(kind) or is_type.is_float16(kind):
        return f"cast it to {'date32' if is_type.is_date64(kind) else 'float32'}."
    if isinstance(kind, pa.BaseExtensionType) or is_type.is_interval(kind):
        return f"cast it to {getattr(kind, 'storage_type', 'a plain type')}."
    return ""
