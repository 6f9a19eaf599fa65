"""The state of a topology as a DataFrame of Spark."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceRegistration

from anchorbolt import state_frame
from anchorbolt.errors import ConfigError, StateError, UnsupportedValue
from anchorbolt.querying.state_source import StateSource
from anchorbolt.serialization.msgpack_values import pack, unpack
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.windows import Tumbling
from tests.migration_tools.conftest import conf_of
from tests.migration_tools.test_rescaling import LATER, WORDS, Job, Reminds, Windows

KEYS = st.StructField("key", st.StringType())
COUNTS = st.StructField("value", st.LongType())
TASK = st.StructField("task", st.IntegerType())


@pytest.fixture
def job(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Job:
    return Job(sqlite_provider, name, tmp_path / "place")


@pytest.fixture
def conf(job: Job, tmp_path: Path) -> str:
    (tmp_path / "conf.json").write_text(json.dumps(conf_of(job.provider)))
    return str(tmp_path / "conf.json")


def rows(job: Job, conf: str, *fields: st.StructField) -> list[dict[str, Any]]:
    """Read a frame as Spark does, without a JVM."""
    reader = StateSource({"topology": job.name, "conf": conf}).reader(st.StructType(list(fields)))
    batches: Iterator[Any] = (batch for partition in reader.partitions() for batch in reader.read(partition))
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_frame_has_the_entries_of_all_tasks(job: Job, conf: str) -> None:
    job.run(WORDS, 3)
    found = rows(job, conf, TASK, KEYS, COUNTS)
    assert {row["key"]: row["value"] for row in found} == Counter(WORDS)
    assert {row["task"] for row in found} == {0, 1, 2}
    assert rows(job, conf, COUNTS, KEYS)[0].keys() == {"value", "key"}
    as_text = rows(job, conf, KEYS, st.StructField("value", st.StringType()))
    assert {row["key"]: row["value"] for row in as_text} == {key: str(n) for key, n in Counter(WORDS).items()}


def test_components_and_keys_say_what_is_read(job: Job, conf: str, spark: SparkSession) -> None:
    keys: list[Any] = [5, "5", ("a", 1), "('a', 1)", True, None, "None", 2.5, float("inf"), datetime(2026, 1, 1)]
    job.run([(key, 0) for key in keys], 2)
    schema = "key string"
    for key in keys:
        [found] = state_frame(spark, job.name, conf, keys=[key], schema=schema).collect()
        assert found.key == (key if type(key) is str or key is None else repr(key))
    assert state_frame(spark, job.name, conf, keys=["5", 5, "no such"], schema=schema).count() == 2
    assert state_frame(spark, job.name, conf, keys=[], schema=schema).count() == 0
    assert state_frame(spark, job.name, conf, components=["count"], schema=schema).count() == len(keys)
    with pytest.raises(UnsupportedValue):
        state_frame(spark, job.name, conf, keys=[[]], schema=schema)


def test_a_filter_of_one_use_of_a_frame_does_not_change_its_other_uses(
    job: Job, conf: str, spark: SparkSession
) -> None:
    job.run(WORDS, 3)
    frame = state_frame(spark, job.name, conf, schema="key string, value bigint")
    one, other = frame.where("key = 'to'"), frame.where("key = 'be'")
    assert {row.key for row in one.union(other).collect()} == {"to", "be"}
    assert one.crossJoin(other.withColumnRenamed("key", "second")).count() == 1
    assert one.count() == 1
    assert frame.count() == len(set(WORDS))


def test_keys_that_are_no_text_are_shown_as_literals(job: Job, conf: str) -> None:
    job.run([("a", 100), ("b", 200)], 2, Windows(Tumbling("1 s")))
    assert sorted(row["key"] for row in rows(job, conf, KEYS)) == ["('a', 0)", "('b', 0)"]


def test_entries_have_their_due_times_until_they_expire(job: Job, conf: str) -> None:
    job.run(["a"], 1, Reminds())
    assert rows(job, conf, KEYS) == [], "by this machine's clock it has expired"
    job.clock.advance(time.time() + 3600)
    job.run(["b"], 1, Reminds())
    [row] = rows(job, conf, KEYS, st.StructField("expires_at", st.TimestampType()))
    assert row["key"] == "b"
    assert row["expires_at"] > datetime.now(timezone.utc)


def test_a_type_that_does_not_fit_is_an_error_that_names_the_entry(job: Job, conf: str) -> None:
    job.run(WORDS, 2)
    with pytest.raises(StateError):
        rows(job, conf, st.StructField("key", st.LongType()))
    with pytest.raises(ConfigError):
        rows(job, conf, st.StructField("keys", st.StringType()))
    with pytest.raises(ConfigError):
        StateSource({}).reader(st.StructType([KEYS]))
    with pytest.raises(StateError):
        rows(Job(job.provider, "another", job.place), conf, KEYS)


def test_a_wave_between_planning_and_reading_is_an_error(job: Job, conf: str) -> None:
    job.run(WORDS, 2)
    reader = StateSource({"topology": job.name, "conf": conf}).reader(st.StructType([KEYS, COUNTS]))
    partitions = reader.partitions()
    job.run(LATER, 2)
    with pytest.raises(StateError):
        [list(reader.read(partition)) for partition in partitions]


def test_a_large_task_is_read_in_ranges_of_its_keys_if_spark_has_more_cores(job: Job, conf: str) -> None:
    job.run(WORDS, 1)
    [namespace] = [each for each in job.provider.namespaces("") if each.endswith("count-0")]
    storage = job.provider.open(namespace)
    large = {pack(f"large-{number:02}"): pack("x" * 1_000_000) for number in range(20)}
    storage.write(storage.claim(), large, storage.head().codec)
    storage.close()
    for cores, most in ((1, 1), (4, 12)):
        source = StateSource({"topology": job.name, "conf": conf, "cores": str(cores)})
        reader = source.reader(st.StructType([KEYS]))
        partitions = reader.partitions()
        assert cores <= len(partitions) <= most
        keys = [key for each in partitions for batch in reader.read(each) for key in batch.column("key").to_pylist()]
        assert sorted(keys) == sorted({*WORDS, *map(unpack, large)})


@pytest.mark.parametrize("where", [{}, {"topology.state.provider.config": {"jedisPoolConfig": {}}}])
def test_a_password_in_the_configuration_is_refused(where: dict[str, Any]) -> None:
    inner = where.get("topology.state.provider.config", {}).get("jedisPoolConfig", where)
    inner["password"] = "secret"
    with pytest.raises(ConfigError) as refused:
        state_frame(None, "words", where)  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


@pytest.mark.slow
def test_spark_reads_counts_and_joins_a_frame(
    job: Job, conf: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.run(WORDS, 3)
    schema = "key string, value bigint"
    frame = state_frame(spark, job.name, conf_of(job.provider), schema=schema)
    assert {row.key: row.value for row in frame.collect()} == Counter(WORDS)
    assert frame.count() == len(set(WORDS))
    other = spark.createDataFrame([("to", "verb"), ("x", "letter")], ["key", "kind"])
    assert [tuple(row) for row in frame.join(other, "key").collect()] == [("to", Counter(WORDS)["to"], "verb")]
    found = frame.where("key in ('to', 'be') and value > 1")
    assert {row.key for row in found.collect()} == {"to", "be"}
    job.run(LATER, 3)
    with pytest.raises(PythonException):
        frame.collect()
    monkeypatch.delattr(DataSourceRegistration, "register")  # Spark would warn of a second registration
    frame = state_frame(spark, job.name, conf_of(job.provider), schema=schema)
    assert {row.key: row.value for row in frame.collect()} == Counter(WORDS + LATER)
    direct = spark.read.format("anchorbolt-state").options(topology=job.name, conf=conf).load()
    assert direct.where("key = 'to'").select("component", "value").collect()[0] == ("count", "4")
