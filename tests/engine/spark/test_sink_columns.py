"""Random columns of plain values in random waves, as Spark reads them afterwards."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.testing import FeederSpout, LocalCluster
from tests.engine.jobs import chain, finished
from tests.support.columns import COLUMNS, as_spark_shows

WAVES = COLUMNS.flatmap(lambda values: st.lists(st.lists(values, min_size=1, max_size=4), min_size=1, max_size=4))


def run(waves: list[list[Any]], sink: Any, tasks: int) -> None:
    numbered, number = [], 0
    for values in waves:
        numbered.append([(number + place, value) for place, value in enumerate(values)])
        number += len(values)
    finished(
        chain("columns", {"in": FeederSpout(["number", "v"], numbered), "out": (sink, tasks)}),
        {"topology.transfer.buffer.tuples": 2},
    )


def plain(value: Any) -> Any:
    """Return a value of Spark's as plain Python."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


def same(found: Any, written: Any) -> bool:
    """Compare; a struct has all names, and one without any value may be null."""
    if isinstance(written, dict):
        if found is None:
            return all(same(None, each) for each in written.values())
        return all(same(found.get(name), written.get(name)) for name in {*found, *written})
    if isinstance(written, list) and isinstance(found, list):
        return len(found) == len(written) and all(map(same, found, written))
    return bool(found == written)


def rows(frame: Any) -> dict[int, Any]:
    return {row["number"]: plain(row["v"]) for row in frame.collect()}


def check(found: dict[int, Any], waves: list[list[Any]]) -> None:
    expected = [as_spark_shows(value) for values in waves for value in values]
    assert len(found) == len(expected)
    for number, value in enumerate(expected):
        assert same(found[number], value), (found[number], value)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(waves=WAVES, tasks=st.integers(1, 2))
def test_what_a_parquet_sink_has_written_is_read_back(spark: Any, waves: list[list[Any]], tasks: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    with tempfile.TemporaryDirectory() as folder:
        run(waves, ParquetSink(f"{folder}/out"), tasks)
        check(rows(session.read.parquet(f"{folder}/out")), waves)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(waves=WAVES, tasks=st.integers(1, 2))
def test_what_a_function_gets_is_what_was_emitted(spark: Any, waves: list[list[Any]], tasks: int) -> None:
    found: dict[int, Any] = {}

    def publish(frame: Any, txid: int) -> None:
        frame.sparkSession.conf.set("spark.sql.session.timeZone", "UTC")
        found.update(rows(frame))

    run(waves, DataFrameSink(publish), tasks)
    check(found, waves)


def test_lists_whose_elements_had_no_type_get_it_in_the_files_that_are_there(spark: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    waves: list[list[Any]] = [[[]], [None, []], [["a"]], [[None, "b"]]]
    run(waves, ParquetSink(out), 1)
    check(rows(spark.read.parquet(out)), waves)


@pytest.mark.parametrize("first", [None, 1, "a"])
def test_a_new_column_and_a_wider_declared_type_are_read_with_the_old_files(
    spark: Any, tmp_path: Path, first: Any
) -> None:
    import pyarrow as pa

    out, cluster = str(tmp_path / "out"), LocalCluster()
    conf = {"topology.checkpoint.location": str(tmp_path / "place")}

    def add(fields: list[str], row: tuple[Any, ...], schema: Any) -> None:
        finished(
            chain("wider", {"in": FeederSpout(fields, [[row]]), "out": ParquetSink(out, schema=schema)}),
            conf,
            cluster=cluster,
        )

    add(["n", "v"], (1, first), pa.schema([("n", pa.int32())]))
    add(["n", "v", "w"], (2**40, first, [1.5]), pa.schema([("n", pa.int64())]))
    read = spark.read.parquet(out).orderBy("n").collect()
    assert [row.asDict() for row in read] == [{"n": 1, "v": first, "w": None}, {"n": 2**40, "v": first, "w": [1.5]}]
