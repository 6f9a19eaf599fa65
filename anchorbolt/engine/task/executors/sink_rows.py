"""Converts tuples to the columns of a sink's file, and finds the tuples with values that do not fit. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.bolts.column_types import Misfit, array_of, in_file, is_whole, joined, kinds_of, schema_of, type_of
from anchorbolt.errors import AnchorboltError, BoltError, TopologyError
from anchorbolt.streams.columns import Column, as_arrow, as_list
from anchorbolt.streams.tuple_batch import TupleBatch
from anchorbolt.util.messages import shortened, user_traceback

if TYPE_CHECKING:
    import pyarrow

Columns = tuple[Sequence[str], Sequence[Sequence[Any]]]
Convert = Callable[[Sequence[str], Sequence[Sequence[Any]]], Columns]
"""Converts fields and their values to a sink's columns: returns the columns' names and values."""

_WIDE = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "int64"),
    **dict.fromkeys(("float", "double"), "double"),
    **{name: name for name in ("string", "binary", "bool", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]")},
}
"""By the type of a column, the type that its values have in a file."""

NO_COLUMN = "__no_column"
"""The only column of a file if no column has a type yet. It keeps the number of rows."""


class Refusal(NamedTuple):
    """The reason why a tuple does not fit the file."""

    reason: str
    user_traceback: str = ""  # of the sink, if it raised


class SinkRows:
    """The columns of one task's files in one wave."""

    def __init__(
        self,
        component: str,
        task_index: int,
        convert: Convert,
        declared: pyarrow.Schema | None,
        recorded: pyarrow.Schema | None = None,
    ) -> None:
        """Create it.

        Args:
            component: The sink's id.
            task_index: The index of its task.
            convert: Makes the columns of tuples.
            declared: The types that the author declared, for all columns or some.
            recorded: The types of the columns that the sink has written in earlier waves.
        """
        self._component = component
        self._task_index = task_index
        self._convert = convert
        self._declared = {field.name: field.type for field in declared or ()}
        self._recorded = {field.name: field.type for field in recorded or ()}
        self._types = self._recorded | self._declared
        self._fields: tuple[str, ...] = ()

    @property
    def schema(self) -> bytes:
        """The columns so far, as `schema_of` encodes them; types may still be unknown."""
        return schema_of((field, self._types[field]) for field in self._fields)

    def table(self, batch: TupleBatch) -> pyarrow.Table:
        """Return the columns of tuples. Raises any exception if a value does not fit: see `refused`.

        Leaves out a column if its type is not known yet.
        """
        import pyarrow as pa

        fields, columns = self._convert(batch.header.fields, batch.columns)
        self._check_fields(fields, batch.header.component)
        types, arrays = {}, {}
        for field, values in zip(fields, columns, strict=True):
            types[field], array = self._column(field, values, self._types)
            if array is not None:
                arrays[field] = array
        self._types |= types
        self._fields = tuple(fields)
        return pa.table(arrays or {NO_COLUMN: pa.nulls(batch.size, pa.bool_())})

    def _check_fields(self, fields: Sequence[str], component: str) -> None:
        expected = self._fields or tuple(fields)
        unknown = [name for name in self._declared if name not in fields]
        if tuple(fields) != expected or unknown:
            raise TopologyError(
                f"sink {self._component!r} takes the fields {', '.join(unknown or expected)}, but {component!r} sends "
                f"{', '.join(fields)}. Give all its inputs the same fields, and its schema no others.",
                component=self._component,
            )

    def _column(
        self, field: str, values: Column, types: Mapping[str, pyarrow.DataType]
    ) -> tuple[pyarrow.DataType, pyarrow.Array | None]:
        """Return a column's type including these values, and their array (None without a type). Raises `Misfit`."""
        import pyarrow as pa

        kind, kinds = types.get(field, pa.null()), None
        if not isinstance(values, list | tuple):
            array = as_arrow(values)
            wide = _WIDE.get(str(array.type))
            if wide is not None and array.null_count < len(array) and (pa.types.is_null(kind) or str(kind) == wide):
                array = array if str(array.type) == wide else array.cast(wide)
                return array.type, array
            values = as_list(values)
        if field in self._declared:
            pass
        elif is_whole(kind):
            # One value of each type is enough: `array_of` checks the others against a type that is whole.
            kinds = kinds_of(values)
            for each in kinds:
                joined(kind, type_of([next(value for value in values if type(value) is each)]))
        else:
            kind = joined(kind, type_of(values))
        written = in_file(kind)
        return kind, None if written is None else array_of(values, written, kinds)

    def refused(self, batch: TupleBatch) -> dict[int, Refusal]:
        """Return the reasons, by position, of the tuples of a batch that do not fit. All other tuples fit together."""
        types = dict(self._types)  # including the accepted tuples
        refusals = {}
        for position, row in enumerate(batch.rows()):
            refusal = self._refusal(batch, row, types)
            if refusal is not None:
                refusals[position] = refusal
        return refusals

    def _refusal(self, batch: TupleBatch, row: Sequence[Any], types: dict[str, Any]) -> Refusal | None:
        import pyarrow as pa

        try:
            fields, columns = self._convert(batch.header.fields, [[value] for value in row])
        except AnchorboltError:
            raise
        except Exception as error:
            text = user_traceback(error)
            where = f"raised while sink {self._component!r} converted tuples of {batch.header.component!r}."
            return Refusal(f"{text}\n\n{where}", text)
        accepted = {}
        for field, column in zip(fields, columns, strict=True):
            try:
                accepted[field], _ = self._column(field, column, types)
            except Misfit as error:
                value, before = column[0], types.get(field, pa.null())
                column_type = "" if pa.types.is_null(before) else f" ({before})"
                return Refusal(
                    f"sink {self._component!r}: the value {shortened(value, 100)}, a {type(value).__name__}, does not "
                    f"fit the field {field!r}{column_type} of {batch.header.component!r}: {error}. "
                    f"{self._way_on(field)}"
                )
        types |= accepted
        return None

    def _way_on(self, field: str) -> str:
        import pyarrow as pa

        if pa.types.is_null(self._recorded.get(field, pa.null())):
            return f"If such values are right, declare the column's type: schema=pyarrow.schema([({field!r}, …)])."
        return (
            "The sink has files with that type. If such values are right, give them a field of another name, or the "
            "sink another id, another place and a schema. If they are wrong, set topology.dead.letter to put their "
            "tuples aside."
        )

    def error(self, refusal: Refusal, tuple_text: str | None) -> BoltError:
        """Return the error that fails the wave for a tuple that does not fit."""
        while_on = "" if tuple_text is None else f" On the tuple {tuple_text}."
        return BoltError(
            f"{refusal.reason}{while_on}",
            component=self._component,
            task_index=self._task_index,
            tuple_text=tuple_text,
            user_traceback=refusal.user_traceback,
        )


def without(batch: TupleBatch, refused: Mapping[int, Refusal]) -> TupleBatch:
    """Return the accepted tuples of a batch, without their lineage."""
    columns = [
        [value for place, value in enumerate(as_list(column)) if place not in refused] for column in batch.columns
    ]
    return TupleBatch(batch.header, batch.size - len(refused), columns)
