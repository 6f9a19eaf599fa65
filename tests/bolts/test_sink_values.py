"""A value that a sink cannot write is named."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import BoltError
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.topology import TopologyBuilder


@pytest.mark.parametrize(
    ("rows", "schema", "named"),
    [
        ([("a", 1), ("b", "two")], None, "'two', a str, does not fit the field 'count' (int64)"),
        ([("a", 1), ("b", None), ("c", 2**70)], None, f"{2**70}, a int, does not fit the field 'count' (int64)"),
        ([("a", {1: {"x"}})], None, "a dict, does not fit the field 'count'"),
        ([("a", 1), (5, 2)], pa.schema([("word", pa.string()), ("count", pa.int64())]), "5, a int, does not fit"),
        ([("a", 300)], pa.schema([("word", pa.string()), ("count", pa.int8())]), "300, a int, does not fit"),
    ],
)
def test_the_field_and_the_value_are_named(tmp_path: Path, rows: Any, schema: Any, named: str) -> None:
    builder = TopologyBuilder()
    builder.set_spout("counts", FeederSpout(["word", "count"], [rows]))
    builder.set_bolt("out", ParquetSink(str(tmp_path / "out"), schema=schema)).shuffle_grouping("counts")
    handle = LocalCluster().submit(builder.create_topology("sink"), {"topology.max.batch.retries": 0})
    with pytest.raises(BoltError) as refused:
        handle.await_termination(60)
    assert named in refused.value.message
    assert not (tmp_path / "out").exists()
