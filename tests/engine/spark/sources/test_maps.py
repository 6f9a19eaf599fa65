"""The maps of Arrow's columns, as bolts get them."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.engine.spark.sources.maps import with_dicts

COUNTS = pa.map_(pa.string(), pa.int64())


def read(kind: pa.DataType, *values: Any) -> list[Any]:
    return with_dicts(kind, pa.array(values, kind).to_pylist())


def test_a_map_with_keys_that_no_dict_can_have_stays_pairs() -> None:
    kind = pa.map_(pa.list_(pa.int64()), COUNTS)
    assert read(kind, [([1], [("a", 1)])], None) == [[([1], {"a": 1})], None]


def test_a_column_without_maps_is_not_touched() -> None:
    values = pa.array([[{"x": [1]}]]).to_pylist()
    assert with_dicts(pa.list_(pa.struct([("x", pa.list_(pa.int64()))])), values) is values


_SIMPLE: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]] = st.sampled_from(
    [(pa.int64(), st.integers(-9, 9)), (pa.string(), st.text(max_size=3)), (pa.bool_(), st.booleans())]
)


def _nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    keys = st.sampled_from([(pa.string(), st.text(max_size=2)), (pa.int64(), st.integers(-9, 9))])
    maps = st.tuples(keys, inner).map(
        lambda both: (pa.map_(both[0][0], both[1][0]), st.dictionaries(both[0][1], st.none() | both[1][1]))
    )
    lists = st.tuples(st.sampled_from([pa.list_, pa.large_list]), inner).map(
        lambda both: (both[0](both[1][0]), st.lists(st.none() | both[1][1], max_size=3))
    )
    structs = st.tuples(inner, inner).map(
        lambda both: (
            pa.struct([("p", both[0][0]), ("q", both[1][0])]),
            st.fixed_dictionaries({"p": st.none() | both[0][1], "q": st.none() | both[1][1]}),
        )
    )
    return maps | lists | structs


@given(st.recursive(_SIMPLE, _nested, max_leaves=5), st.data())
def test_what_was_written_as_dicts_is_read_as_dicts(
    column: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    kind, values = column
    rows = data.draw(st.lists(st.none() | values, max_size=4))
    assert read(kind, *(_as_pairs(kind, row) for row in rows)) == rows


def _as_pairs(kind: pa.DataType, value: Any) -> Any:
    """Return a value as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _as_pairs(kind.item_type, item)) for key, item in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _as_pairs(field.type, value[field.name]) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_as_pairs(kind.value_type, item) for item in value]
    return value
