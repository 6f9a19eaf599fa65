"""Spark runs on the Java and the Python that set-up found: the first test to look at when everything else fails."""

import platform
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.thorough


def python_version_of_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"version": [platform.python_version()], "rows": [rows]})


@pytest.mark.slow
def test_a_worker_runs_a_job_over_arrow_with_the_python_of_the_driver() -> None:
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = session.range(1000).mapInArrow(python_version_of_worker, "version string, rows long").collect()
    finally:
        session.stop()
    assert {row.version for row in rows} == {platform.python_version()}
    assert sum(row.rows for row in rows) == 1000
