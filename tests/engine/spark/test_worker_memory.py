"""A worker that runs many stateful tasks keeps no more committed entries than one process may."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.spouts import StreamSpout
from tests.engine.jobs import StatefulBolt, chain, kept_in

TASKS, KEYS, MOST = 64, 100, 1000
PER_WAVE = TASKS * KEYS


def cached_entries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from anchorbolt.engine.spark import worker

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"entries": [worker._registry.cached_entries]})
        time.sleep(0.2)  # so that another worker runs the other task


def numbers(spark: SparkSession) -> DataFrame:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", PER_WAVE).option("numPartitions", 2)
    return frame.load().selectExpr(f"value % {PER_WAVE} as key")


@pytest.mark.thorough
def test_the_cached_entries_of_a_worker_do_not_grow_with_its_tasks(spark: SparkSession, tmp_path: Path) -> None:
    kept: list[int] = []

    def on_wave(report: WaveReport) -> None:
        rows = spark.range(0, 2, 1, 2).mapInArrow(cached_entries, "entries long").collect()
        kept.extend(row.entries for row in rows)
        if report.txid == 2:
            handle.stop()

    conf = {**kept_in(tmp_path), "topology.state.cache.max.entries": MOST}
    handle = SparkCluster(spark).submit(
        chain("many-tasks", {"numbers": StreamSpout(numbers, ["key"]), "count": (StatefulBolt(), TASKS, "key")}),
        conf,
        on_wave=on_wave,
    )
    assert handle.await_termination(200)
    assert len(handle.state("count")) == PER_WAVE
    assert len(kept) >= 6
    assert 0 < max(kept) <= MOST
