"""Batches of tuples, in the form that engines transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.streams.columns import Column, as_list, rows_of, taken
from anchorbolt.streams.tuple import StreamHeader, TrackedTuple, Tuple

if TYPE_CHECKING:
    from anchorbolt.streams.lineage import Lineage  # imports NumPy: only if tuple trees are tracked


class TupleBatch(NamedTuple):
    """Tuples of one stream from one task, column by column: the decoded content of one blob."""

    header: StreamHeader
    size: int  # number of tuples; a stream may have no fields, and so no columns
    columns: Sequence[Column]
    lineage: Lineage | None = None  # None if no tuple is tracked

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return rows_of(self.size, self.columns)

    def tuples(self) -> list[Tuple]:
        header = self.header
        return [Tuple(row, header) for row in self.rows()]

    def tracked_tuples(self) -> list[TrackedTuple]:
        header, lineage = self.header, self.lineage
        if lineage is None:
            return [TrackedTuple(row, header, (), 0) for row in self.rows()]
        return list(map(TrackedTuple, self.rows(), [header] * self.size, lineage.items(), lineage.ids().tolist()))

    def in_lists(self) -> TupleBatch:
        """Return the batch with each column as a list."""
        return self._replace(columns=[as_list(column) for column in self.columns])

    def part(self, start: int, stop: int) -> TupleBatch:
        """Return the tuples from one position to another."""
        lineage = None if self.lineage is None else self.lineage[start:stop]
        columns = [taken(column, slice(start, stop)) for column in self.columns]
        return TupleBatch(self.header, stop - start, columns, lineage)
