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
TIME = "time"


def _smaller(one: Any, other: Any) -> Any:
    return other if one != one or other < one else one  # a NaN is left out, as by Arrow


def _larger(one: Any, other: Any) -> Any:
    return other if one != one or other > one else one


FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {"sum": add, "min": _smaller, "max": _larger}
"""How two results of an aggregate function of a field become one."""


class Parts(NamedTuple):
    """The values of groups of tuples."""

    groups: list[Sequence[Any]]  # column by column
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

    def columns(self, batch: pyarrow.RecordBatch, groups: Sequence[Any], times: Any) -> pyarrow.Table:
        """Return what `parts` needs of a block: the columns by which it is grouped, the times, and the values."""
        import pyarrow as pa

        fields = dict.fromkeys(each[0] for each in self._aggregates if not isinstance(each, str))
        columns = [*groups, times, *(batch[field] for field in fields)]
        return pa.table(
            # Blocks may have different dictionaries, and Arrow cannot group or compare such columns.
            [each.dictionary_decode() if isinstance(each, pa.DictionaryArray) else each for each in columns],
            [*map(_group, range(len(groups))), TIME, *map(_value, fields)],
        )

    def parts(self, table: pyarrow.Table, groups: int, *, spans: bool) -> Parts:
        """Return the value of each group of tuples; those of a group are equal in the first `groups` columns.

        With `spans`, also the first and the last time of each group. Raises `ArrowException` for columns that cannot be
        grouped or aggregated.
        """
        import pyarrow as pa

        names = list(map(_group, range(groups)))
        asked: list[tuple[Any, str]] = [(TIME, "min"), (TIME, "max")] if spans else []
        exact: set[int] = set()
        for each in self._aggregates:
            if isinstance(each, str):  # COUNT
                asked.append(([], "count_all"))
                continue
            name, function = _value(each[0]), each[1]
            if function == "sum" and _could_wrap(table[name]):
                exact.add(groups + len(asked))
                table = table.append_column(f"exact {name}", table[name].cast(pa.decimal128(38, 0)))
                name = f"exact {name}"
            asked.append((name, function))
        # The columns of the result are the groups, then the results in their order.
        found = list(map(as_list, table.group_by(names, use_threads=False).aggregate(asked).columns))
        for place in exact:
            found[place] = [None if each is None else int(each) for each in found[place]]
        results = found[groups:]
        firsts, lasts = (results.pop(0), results.pop(0)) if spans else ((), ())
        values = results[0] if len(results) == 1 else list(map(list, zip(*results, strict=True)))
        return Parts(found[:groups], values, firsts, lasts)


def _group(number: int) -> str:
    return f"group {number}"


def _value(field: str) -> str:
    return f"value {field}"


def _could_wrap(column: pyarrow.ChunkedArray) -> bool:
    """Return whether a sum of these could leave 64 bits, where Arrow's sums of ints begin again from below."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(column.type) or column.null_count == len(column):
        return False
    ends = pc.min_max(column).as_py()
    most: int = max(abs(ends["min"]), abs(ends["max"])) * len(column)
    return most > _LARGEST_INT64
