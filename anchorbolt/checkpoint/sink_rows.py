"""Makes the columns of a sink's file of tuples, and finds the tuples whose values do not fit them. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.errors import AnchorboltError, BoltError, TopologyError
from anchorbolt.streams.tuple import TupleBatch
from anchorbolt.util.messages import shortened, user_traceback

if TYPE_CHECKING:
    import pyarrow

Columns = tuple[Sequence[str], Sequence[Sequence[Any]]]
Convert = Callable[[Sequence[str], Sequence[Sequence[Any]]], Columns]
"""Returns the names and the values of the columns that a sink makes of these fields and their values."""


class Refusal(NamedTuple):
    """Why a tuple has no place in the file."""

    reason: str
    user_traceback: str = ""  # of the sink, if it raised


class SinkRows:
    """The columns of one file."""

    def __init__(self, component: str, task_index: int, convert: Convert, schema: pyarrow.Schema | None) -> None:
        """Create it; without a `schema`, the first tuples decide on the types of the columns."""
        self._component = component
        self._task_index = task_index
        self._convert = convert
        self.schema = schema

    def table(self, batch: TupleBatch) -> pyarrow.Table:
        """Return the columns of tuples. Raises any exception if a value does not fit: see `refused`."""
        import pyarrow as pa

        fields, columns = self._convert(batch.header.fields, batch.columns)
        schema = self.schema or _inferred(fields, columns)
        if tuple(schema.names) != tuple(fields):
            raise TopologyError(
                f"sink {self._component!r} takes the fields {', '.join(schema.names)}, but "
                f"{batch.header.component!r} sends {', '.join(fields)}. Give all its inputs, and its schema, "
                "the same fields.",
                component=self._component,
            )
        arrays = [pa.array(column, type=field.type) for field, column in zip(schema, columns, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schema)
        self.schema = schema
        return table

    def refused(self, batch: TupleBatch) -> dict[int, Refusal]:
        """Return by position the tuples of a batch that do not fit, and why: the others fit together."""
        accepted: list[list[Any]] = [[] for _ in batch.header.fields]  # of each column the first value of each type
        refusals = {}
        for position, row in enumerate(batch.rows()):
            refusal = self._refusal(batch, row, accepted)
            if refusal is not None:
                refusals[position] = refusal
        return refusals

    def _refusal(self, batch: TupleBatch, row: Sequence[Any], accepted: list[list[Any]]) -> Refusal | None:
        try:
            fields, columns = self._convert(batch.header.fields, [[value] for value in row])
        except AnchorboltError:
            raise
        except Exception as error:
            text = user_traceback(error)
            where = f"raised while sink {self._component!r} converted tuples of {batch.header.component!r}."
            return Refusal(f"{text}\n\n{where}", text)
        accepted.extend([] for _ in range(len(fields) - len(accepted)))
        for position, (field, [value]) in enumerate(zip(fields, columns, strict=True)):
            kind = None if self.schema is None else self.schema.field(position).type
            problem = _misfit(accepted[position] if kind is None else [], value, kind)
            if problem is not None:
                column_type = _type_of(accepted[position]) if kind is None else kind
                return Refusal(
                    f"sink {self._component!r}: the value {shortened(value, 100)}, a {type(value).__name__}, does not "
                    f"fit the field {field!r}{'' if column_type is None else f' ({column_type})'} of "
                    f"{batch.header.component!r}: {problem}. Give the sink a schema that fits all values."
                )
        for of_column, [value] in zip(accepted, columns, strict=False):
            if type(value) not in map(type, of_column) or not isinstance(value, str | int | float | bytes):
                of_column.append(value)
        return None

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
    """Return the tuples of a batch, without their lineage, that are not refused."""
    columns = [[value for place, value in enumerate(column) if place not in refused] for column in batch.columns]
    return TupleBatch(batch.header, batch.size - len(refused), columns)


def _misfit(accepted: Sequence[Any], value: Any, kind: pyarrow.DataType | None) -> str | None:
    import pyarrow as pa

    try:
        pa.array([*accepted, value], type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return str(error)
    return None


def _type_of(values: Sequence[Any]) -> pyarrow.DataType | None:
    import pyarrow as pa

    return pa.array(values).type if values else None


def _inferred(fields: Sequence[str], columns: Sequence[Sequence[Any]]) -> pyarrow.Schema:
    import pyarrow as pa

    types = [pa.array(column).type for column in columns]
    # A column of None throughout says nothing about its type; text reads back as NULL with any reader.
    return pa.schema(
        [(field, pa.string() if pa.types.is_null(kind) else kind) for field, kind in zip(fields, types, strict=True)]
    )
