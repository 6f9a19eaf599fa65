"""Every row goes to the tasks that its grouping chooses; no row is lost, and the order is kept."""

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.streams import routing
from anchorbolt.streams.columns import rows_of
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import CustomStreamGrouping, GlobalStreamId, Grouping
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.streams.routing import ROUTERS, Router
from anchorbolt.util.keys import canonical_key

Values = tuple[Any, ...]

FIRST_TASK = 11
STREAM = GlobalStreamId("split", "default")

TWICE = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
"""Python calls it equal to the same time an hour later, with `fold=1`."""

keys = st.sampled_from(["a", "b", "c", "\ud800", 1, True, 1.0, Decimal(1), None, b"a", ("a", 1), ("a", True)])
keys |= st.sampled_from([TWICE, TWICE.replace(fold=1), TWICE.astimezone(dt.timezone.utc), (TWICE.replace(fold=1),)])
values = st.integers(0, 9)
buffers = st.lists(st.lists(st.tuples(keys | st.text(max_size=3), keys, values), max_size=12), max_size=4)
sizes = st.integers(1, 9)


def router_for(grouping: Grouping, tasks: int, *, source_index: int = 0) -> Router:
    return ROUTERS[grouping.name](
        grouping,
        stream=STREAM,
        fields=("key", "second", "value"),
        target_tasks=range(FIRST_TASK, FIRST_TASK + tasks),
        context=TopologyContext("t", "split", 3 + source_index, source_index),
    )


def route(router: Router, rows: Sequence[Values], tasks: Sequence[int] = ()) -> list[list[Values]]:
    """Return the rows of each destination."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    shares = router.route(len(rows), columns, tasks)
    assert list(rows_of(len(rows), columns)) == list(rows), "a column's other form has other values"
    return [[rows[position] for position in np.arange(len(rows))[share].tolist()] for share in shares]


def is_subsequence(part: Sequence[Values], whole: Sequence[Values]) -> bool:
    remaining = iter(whole)
    return all(any(row is other for other in remaining) for row in part)


@pytest.mark.parametrize(
    "grouping",
    [
        Grouping("shuffle"),
        Grouping("none"),
        Grouping("local_or_shuffle"),
        Grouping("global"),
        Grouping("fields", ("key",)),
        Grouping("fields", ("key", "second")),
        Grouping("partial_key", ("key",)),
        Grouping("partial_key", ("second", "key")),
    ],
    ids=str,
)
@given(buffers=buffers, tasks=sizes)
def test_each_row_goes_to_exactly_one_task_in_its_order_and_to_the_same_one_again(
    grouping: Grouping, buffers: list[list[Values]], tasks: int
) -> None:
    router, again = (router_for(grouping, tasks, source_index=2) for _ in range(2))
    for rows in buffers:
        shares = route(router, rows)
        assert route(again, rows) == shares
        assert len(shares) == tasks
        assert sorted(id(row) for share in shares for row in share) == sorted(map(id, rows))
        assert all(is_subsequence(share, rows) for share in shares)


@given(buffers=buffers, tasks=sizes, data=st.data())
def test_a_task_sends_every_row_to_the_task_of_a_chained_bolt_with_its_index(
    buffers: list[list[Values]], tasks: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, tasks - 1))
    router = router_for(Grouping("chained"), tasks, source_index=index)
    for rows in buffers:
        assert route(router, rows) == [rows if each == index else [] for each in range(tasks)]


@given(buffers=buffers, tasks=sizes)
def test_all_grouping_sends_every_row_to_every_task_and_global_grouping_to_the_first(
    buffers: list[list[Values]], tasks: int
) -> None:
    to_all, to_first = router_for(Grouping("all"), tasks), router_for(Grouping("global"), tasks)
    for rows in buffers:
        assert route(to_all, rows) == [rows] * tasks
        assert route(to_first, rows) == [rows, *[[]] * (tasks - 1)]


@pytest.mark.parametrize("fields", [("key",), ("second",), ("key", "second"), ("second", "key")], ids=str)
@given(buffers=buffers, tasks=sizes, few=st.sampled_from([0, 2, 1000]))
def test_fields_grouping_places_rows_by_the_stable_hash_of_their_key(
    fields: tuple[str, ...], buffers: list[list[Values]], tasks: int, few: int
) -> None:
    positions = [("key", "second").index(field) for field in fields]
    router = router_for(Grouping("fields", fields), tasks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "FEW", few)
        shares = [share for rows in buffers for share in enumerate(route(router, rows))]
    for index, share in shares:
        for row in share:
            key = row[positions[0]] if len(positions) == 1 else tuple(row[p] for p in positions)
            assert destination_of(stable_hash(key), tasks) == index


@given(buffers=buffers, tasks=sizes, source_index=st.integers(0, 20))
def test_shuffle_gives_all_tasks_the_same_number_of_rows(
    buffers: list[list[Values]], tasks: int, source_index: int
) -> None:
    router = router_for(Grouping("shuffle"), tasks, source_index=source_index)
    counts = Counter[int]()
    for rows in buffers:
        counts.update({index: len(share) for index, share in enumerate(route(router, rows))})
    assert max(counts[index] for index in range(tasks)) - min(counts[index] for index in range(tasks)) <= 1


@given(sizes_of_buffers=st.lists(st.integers(0, 40), max_size=5), tasks=sizes)
def test_a_shuffle_of_arrow_columns_gives_consecutive_tuples(sizes_of_buffers: list[int], tasks: int) -> None:
    router = router_for(Grouping("shuffle"), tasks)
    counts = Counter[int]()
    for size in sizes_of_buffers:
        shares = router.route(size, [pa.array(range(size))] * 3)
        positions = [np.arange(size)[share].tolist() for share in shares]
        assert sorted(itertools.chain(*positions)) == list(range(size))
        assert all(each == list(range(each[0], each[-1] + 1)) for each in positions if each)
        counts.update({index: len(share) for index, share in enumerate(positions)})
    assert max(counts[index] for index in range(tasks)) - min(counts[index] for index in range(tasks)) <= 1


def test_shuffles_of_several_sources_start_at_different_tasks() -> None:
    row: Values = ("a", 0, 0)
    starts = [route(router_for(Grouping("shuffle"), 4, source_index=i), [row]).index([row]) for i in range(4)]
    assert starts == [0, 1, 2, 3]


@given(buffers=buffers, tasks=sizes)
def test_partial_key_grouping_uses_at_most_two_tasks_a_key(buffers: list[list[Values]], tasks: int) -> None:
    router = router_for(Grouping("partial_key", ("key",)), tasks)
    seen: dict[Any, set[int]] = {}
    for rows in buffers:
        for index, share in enumerate(route(router, rows)):
            for row in share:
                seen.setdefault(canonical_key(row[0]), set()).add(index)
    assert all(len(indexes) <= 2 for indexes in seen.values())


def test_partial_key_grouping_halves_a_hot_key_over_two_tasks() -> None:
    router = router_for(Grouping("partial_key", ("key",)), 5)
    shares = route(router, [("hot", i, 0) for i in range(1_000)])
    assert sorted(map(len, shares)) == [0, 0, 0, 500, 500]


def test_partial_key_grouping_uses_all_pairs_of_tasks() -> None:
    pairs = set()
    for i in range(400):
        router = router_for(Grouping("partial_key", ("key",)), 4)
        pairs.add(tuple(index for index, share in enumerate(route(router, [(i, 0, 0)] * 2)) if share))
    assert pairs == set(itertools.combinations(range(4), 2))


@pytest.mark.parametrize(
    "grouping",
    [Grouping("fields", ("value",)), Grouping("fields", ("key", "value")), Grouping("partial_key", ("value",))],
    ids=str,
)
def test_a_mutable_key_is_refused_naming_the_grouping_and_the_stream(grouping: Grouping) -> None:
    router = router_for(grouping, 2)
    with pytest.raises(UnsupportedValue) as caught:
        route(router, [("a", "b", 1), ("a", "b", [1])])
    assert caught.value.message.startswith(f"{grouping} on stream 'default' of 'split': ")
    assert "type list" in caught.value.message


def test_a_key_that_python_cannot_hash_is_routed() -> None:
    rows: list[Values] = [(Decimal("sNaN"), 1, 2), ("a", 1, 2)]
    for grouping in (Grouping("fields", ("key",)), Grouping("partial_key", ("key",))):
        assert sum(map(len, route(router_for(grouping, 3), rows))) == 2


def test_direct_rows_go_to_the_named_task_unless_it_is_another_bolts() -> None:
    rows, tasks = [("a",), ("b",), ("c",), ("d",)], [FIRST_TASK + index for index in (1, 0, 1, 2)]
    assert route(router_for(Grouping("direct"), 2), rows, tasks) == [[("b",)], [("a",), ("c",)]]


class ByLength(CustomStreamGrouping):
    """Sends a row to the tasks in its second value: a list of indexes, or the ids to return unchecked."""

    def __init__(self) -> None:
        self.prepared: list[Any] = []

    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        self.prepared.append((context.this_task_id, stream, tuple(target_tasks)))
        self.targets = target_tasks

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        assert task_id == 3
        chosen = values[1]
        return [self.targets[index] for index in chosen] if isinstance(chosen, list) else chosen


def test_custom_grouping_chooses_none_one_or_several_tasks() -> None:
    implementation = ByLength()
    router = router_for(Grouping("custom", custom=implementation), 3)
    assert implementation.prepared == [(3, STREAM, (11, 12, 13))]
    rows: list[Values] = [("a", [0, 2]), ("b", []), ("c", [2]), ("d", [1])]
    assert route(router, rows) == [[rows[0]], [rows[3]], [rows[0], rows[2]]]


@pytest.mark.parametrize("chosen", [(14,), (0,), None, 11, ("11",), ([11],)], ids=repr)
def test_a_custom_grouping_that_returns_another_bolts_task_is_refused(chosen: Any) -> None:
    router = router_for(Grouping("custom", custom=ByLength()), 3)
    with pytest.raises(TopologyError) as caught:
        route(router, [("a", chosen)])
    assert f"ByLength.choose_tasks returned {chosen!r}" in caught.value.message
    assert "[11, 12, 13]" in caught.value.message
