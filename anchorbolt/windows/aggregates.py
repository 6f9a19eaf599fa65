"""What a vectorised bolt keeps of a window: counts, sums, smallest and largest values of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from anchorbolt.streams.columns import as_list

if TYPE_CHECKING:
    import pyarrow

COUNT = "count"
_LARGEST_INT64 = (1 << 63) - 1


def _smaller(one: Any, other: Any) -> Any:
    return other if one != one or other < one else one  # a NaN is left out, as by Arrow


def _larger(one: Any, other: Any) -> Any:
    return other if one != one or other > one else one


FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {"sum": add, "min": _smaller, "max": _larger}
"""How two results of an aggregate function of a field become one."""


class Parts(NamedTuple):
    """The values of groups of tuples."""

    rows: list[Sequence[Any]]  # the groups, column by column
    values: Sequence[Any]
    firsts: Sequence[int]  # times, if they were asked for
    lasts: Sequence[int]


class Aggregates:
    """The aggregates of one bolt, in their order: `"count"`, or a field and the name of a function.

    The value of a window is the result of the aggregate, or a list of the results if there are several.
    """

    can_merge = True

    def __init__(self, aggregates: Sequence[str | tuple[str, str]]) -> None:
        self._aggregates = aggregates
        merges = [add if isinstance(each, str) else FUNCTIONS[each[1]] for each in aggregates]
        self._merges: list[Callable[[Any, Any], Any]] = merges
        self._merge_one = merges[0] if len(merges) == 1 else None

    def create(self) -> None:
        """Return the value of a window without tuples."""

    def add(self, value: Any, part: Any) -> Any:
        """Return the value of a window with one more part."""
        return part if value is None else self.merge(value, part)

    def merge(self, one: Any, other: Any) -> Any:
        """Return the value of two parts."""
        if self._merge_one is not None:
            return other if one is None else one if other is None else self._merge_one(one, other)
        return [
            theirs if ours is None else ours if theirs is None else merge(ours, theirs)
            for merge, ours, theirs in zip(self._merges, one, other, strict=True)
        ]

    def parts(self, batch: pyarrow.RecordBatch, groups: Sequence[Any], times: Any = None) -> Parts:
        """Return the values of the tuples of each group: those that are equal in all columns of `groups`.

        With `times`, also the first and the last time of each group. Raises `ArrowException` for columns that cannot be
        grouped or aggregated.
        """
        import pyarrow as pa

        columns = {f"group {number}": column for number, column in enumerate(groups)}
        names, asked = list(columns), list[tuple[Any, str]]()
        if times is not None:
            columns["times"] = times
            asked += (("times", "min"), ("times", "max"))
        for number, each in enumerate(self._aggregates):
            if isinstance(each, str):  # COUNT
                asked.append(([], "count_all"))
                continue
            field, function = each
            columns[f"value {number}"] = _unwrapped(batch[field]) if function == "sum" else batch[field]
            asked.append((f"value {number}", function))
        # The columns of the result are the groups, then the results in their order.
        found = [
            _values(column) for column in pa.table(columns).group_by(names, use_threads=False).aggregate(asked).columns
        ]
        rows, results = found[: len(names)], found[len(names) :]
        spans = (results.pop(0), results.pop(0)) if times is not None else ((), ())
        return Parts(rows, results[0] if len(results) == 1 else list(map(list, zip(*results, strict=True))), *spans)


def _unwrapped(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column of ints as decimals, if their sum could leave the 64 bits in which Arrow's sums wrap."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(column.type) or column.null_count == len(column):
        return column
    ends = pc.min_max(column).as_py()
    most = max(abs(ends["min"]), abs(ends["max"])) * len(column)
    return column if most <= _LARGEST_INT64 else column.cast(_wide())


def _values(column: pyarrow.ChunkedArray) -> Sequence[Any]:
    values: Sequence[Any] = as_list(column)
    return values if column.type != _wide() else [None if each is None else int(each) for each in values]


def _wide() -> pyarrow.DataType:
    import pyarrow as pa

    return pa.decimal128(38, 0)
