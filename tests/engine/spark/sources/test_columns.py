"""Values of Spark's columns, as bolts get them: maps, and text that is not UTF-8."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.sources.maps import with_dicts
from anchorbolt.errors import UnsupportedValue
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology
from tests.engine.jobs import StatefulBolt, chain, kept_in
from tests.reliability.jobs import letters_in

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


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.txt").write_bytes(b"tea\ntea\n")
    (folder / "bad [1].txt").write_bytes(b"milk\ncaf\xe9\ntea\n")
    return chain(
        "undecoded",
        {
            "lines": StreamSpout(lambda spark: spark.readStream.text(str(folder), recursiveFileLookup=True), ["line"]),
            "count": (StatefulBolt(), 2, "line"),
        },
    )


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    return LocalCluster() if request.param == "local" else SparkCluster(spark)


def conf_in(folder: Path) -> dict[str, Any]:
    return kept_in(folder)


def test_the_row_is_a_dead_letter(engine: Any, topology: Topology, tmp_path: Path) -> None:
    handle = engine.submit(
        topology, conf_in(tmp_path) | {"topology.dead.letter": str(tmp_path / "dead")}, until_empty=True
    )
    assert handle.await_termination(120)
    assert set(handle.state("count")) == {"tea", "milk"}
    [letter] = letters_in(tmp_path / "dead")
    assert (letter["spout"], letter["component"]) == ("lines", "lines")
    assert "not UTF-8" in letter["reason"]


def test_without_dead_letters_the_spout_the_field_and_the_file_are_named(
    engine: Any, topology: Topology, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedValue) as raised:
        engine.submit(
            topology, conf_in(tmp_path) | {"topology.max.batch.retries": 0}, until_empty=True
        ).await_termination(120)
    for named in ("'lines'", "'line'", "caf\\xe9", "bad [1].txt"):
        assert named in raised.value.message
    assert "good.txt" not in raised.value.message
