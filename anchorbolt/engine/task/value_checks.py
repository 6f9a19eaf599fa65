"""Checks emitted tuples one by one, in a round that finds the tuple of a value that cannot be sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.column_types import Misfit
from anchorbolt.bolts.exact_arrays import exact_array
from anchorbolt.engine.plan.wiring import Edge
from anchorbolt.errors import UnsupportedValue
from anchorbolt.serialization import pack
from anchorbolt.serialization.msgpack_values import refused_value
from anchorbolt.streams.columns import Column
from anchorbolt.streams.routing import Router
from anchorbolt.util.messages import shortened

if TYPE_CHECKING:
    import pyarrow

_KEYED = ("fields", "partial_key", "custom")


class RowChecks:
    """The checks of the tuples that a task emits.

    It has its own routers, because the routers that send must not count a tuple twice.
    """

    def __init__(self, routers: Iterable[tuple[Edge, Router]]) -> None:
        """Create it with a new router for each bolt that subscribes to the stream."""
        self._routers = [router for edge, router in routers if edge.grouping.name in _KEYED]

    def check(
        self, component: str, stream: str, fields: Sequence[str], values: Sequence[Any], row: Sequence[Any]
    ) -> None:
        """Raise the error that sending a row would raise; `values` are those that are sent, one for each field."""
        columns = [[value] for value in values]
        for field, [value] in zip(fields, columns, strict=True):
            if isinstance(value, UndecodedText):
                raise UnsupportedValue(
                    f"spout {component!r} emitted to stream {stream!r} for the field {field!r} {UNDECODED}: "
                    f"{shortened(value)}. Decode the column in the source, by "
                    "functions.decode(column.cast('binary'), 'ISO-8859-1') for instance, or replace invalid bytes by "
                    "functions.make_valid_utf8(column). For a KafkaTransactionalSpout, pass decode=False."
                )
        try:
            pack([[list(values)]])
        except UnsupportedValue:
            raise refused_value(f"component {component!r}", stream, fields, columns) from None
        for router in self._routers:
            router.route(1, [[value] for value in row])


def typed(component: str, stream: str, schema: pyarrow.Schema, columns: Sequence[Column]) -> list[Column]:
    """Return columns with the declared types; a column for the attempt before them stays as it is.

    Raises `UnsupportedValue` for the first value that does not fit.
    """
    first = len(columns) - len(schema)
    found = list(columns)
    for position, field in enumerate(schema, start=first):
        column = columns[position]
        if isinstance(column, list | tuple):
            try:
                found[position] = exact_array(column, field.type)
            except Misfit:
                value, error = _misfit(column, field.type)
                raise UnsupportedValue(
                    f"component {component!r} emitted to stream {stream!r} for the field {field.name!r} the value "
                    f"{shortened(value)}, which does not fit the declared type {field.type}: {error}"
                ) from None
    return found


def _misfit(column: Sequence[Any], kind: pyarrow.DataType) -> tuple[Any, Misfit]:
    for value in column:
        try:
            exact_array([value], kind)
        except Misfit as error:
            return value, error
    raise AssertionError("each value fits alone, so all of them fit")


UNDECODED = "text that is not UTF-8"
"""In the error message about such a row."""


class UndecodedText:
    """Text of a source that is not UTF-8, in a round that checks. It cannot be sent."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __repr__(self) -> str:
        return repr(self.data)


def checked_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column, with `UndecodedText` for text that is not UTF-8."""
    return [_checked_value(scalar) for scalar in column]


def _checked_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return UndecodedText(error.object)
