"""Tuples, as bolts see them, and batches of tuples, as engines move them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_SHOWN_CHARACTERS = 200


class StreamHeader:
    """The source and the fields that all tuples of a batch share.

    For a stream spout, `task` is the index of the source's partition. `index` maps a field's name, or a position that
    may be negative, to a position.
    """

    __slots__ = ("component", "fields", "index", "stream", "task")

    def __init__(self, component: str, task: int, stream: str, fields: tuple[str, ...]) -> None:
        self.component = component
        self.task = task
        self.stream = stream
        self.fields = fields
        index: dict[str | int, int] = {field: position for position, field in enumerate(fields)}
        index.update((position, position) for position in range(-len(fields), len(fields)))
        self.index = index


class Tuple:
    """One tuple of a stream: a named list of values. Do not change the values.

    `tup["word"]` and `tup[0]` return a value; `len`, iteration and `in` (over values) work as on a list.

    Attributes:
        values: The values, in the order of `fields`.
    """

    __slots__ = ("_header", "values")

    def __init__(self, values: tuple[Any, ...], header: StreamHeader) -> None:
        self.values = values
        self._header = header

    def __getitem__(self, field: str | int) -> Any:
        try:
            return self.values[self._header.index[field]]
        except KeyError:
            raise _no_such_field(field, self._header) from None

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def get(self, field: str, default: Any = None) -> Any:
        """Return the value of `field`, or `default` if the stream has no such field."""
        position = self._header.index.get(field)
        return default if position is None else self.values[position]

    def as_dict(self) -> dict[str, Any]:
        """Return the values by field name."""
        return dict(zip(self._header.fields, self.values, strict=True))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the values, in order."""
        return self._header.fields

    @property
    def source_component(self) -> str:
        """Id of the component that emitted this tuple."""
        return self._header.component

    @property
    def source_task(self) -> int:
        """Id of the task that emitted this tuple; for a stream spout, the index of the source's partition."""
        return self._header.task

    @property
    def source_stream(self) -> str:
        """Name of the stream that this tuple belongs to."""
        return self._header.stream

    def __repr__(self) -> str:
        text = ", ".join(f"{field}={value!r}" for field, value in zip(self.fields, self.values, strict=False))
        if len(text) > _SHOWN_CHARACTERS:
            text = text[:_SHOWN_CHARACTERS] + "…"
        return f"Tuple({text}; from {self.source_component!r}, stream {self.source_stream!r})"


def _no_such_field(field: object, header: StreamHeader) -> Exception:
    if isinstance(field, int):
        return IndexError(f"tuple of {header.component!r} has {len(header.fields)} values, no position {field}")
    return KeyError(
        f"tuple of {header.component!r}, stream {header.stream!r} has the fields "
        f"{', '.join(header.fields)}, not {field!r}"
    )


class TupleBatch(NamedTuple):
    """Tuples of one stream from one task, column by column: the decoded content of one blob."""

    header: StreamHeader
    size: int  # number of tuples; a stream may have no fields, and so no columns
    columns: Sequence[Sequence[Any]]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        if not self.columns:
            return iter([()] * self.size)
        return zip(*self.columns, strict=True)

    def tuples(self) -> list[Tuple]:
        header = self.header
        return [Tuple(row, header) for row in self.rows()]
