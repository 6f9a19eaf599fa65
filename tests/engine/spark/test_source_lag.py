"""How far a query is behind its sources."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.engine.driver.rounds import WaveReport
from anchorbolt.engine.spark.source_lag import SourceLag, behind
from anchorbolt.spouts import StreamSpout
from tests.engine.jobs import SplitSentence, one_bolt
from tests.engine.spark.test_spark_cluster import conf_in


@pytest.mark.parametrize(
    ("read", "latest", "count"),
    [
        (7, 12, 5),
        (12, 7, 0),  # the source was asked before the batch ended
        ({"words": {"0": 10, "1": 4}}, {"words": {"0": 15, "1": 4}}, 5),
        ({"words": {"0": 10}}, {"words": {"0": 10, "1": 3}, "lines": {"0": 2}}, 5),  # a new partition, a new topic
        (None, {"words": {"0": 3}}, 3),
        ({"logOffset": 3}, None, None),  # a file source
        ("a", "b", None),
    ],
)
def test_offsets_are_subtracted_where_they_are_numbers(read: Any, latest: Any, count: int | None) -> None:
    assert behind(read, latest) == count


def test_several_sources_are_added_up_and_those_that_tell_nothing_are_left_out() -> None:
    sources = [{"endOffset": 1, "latestOffset": 4}, {"endOffset": {"logOffset": 1}, "latestOffset": None}]
    query = Mock(lastProgress=SimpleNamespace(json=json.dumps({"sources": sources})))
    lag = SourceLag()
    assert lag.offsets_behind(query) == 3
    query.lastProgress = None
    assert lag.offsets_behind(query) == 3, "asked once a second at most"


def test_a_query_without_progress_tells_nothing() -> None:
    assert SourceLag().offsets_behind(Mock(lastProgress=None)) is None


def test_a_wave_tells_by_how_much_the_query_is_behind_a_source_that_tells(spark: SparkSession, tmp_path: Path) -> None:
    spout = StreamSpout(
        lambda spark: spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS sentence"),
        ["sentence"],
    )
    told: list[int] = []

    def stop_when_told(report: WaveReport) -> None:
        if report.offsets_behind is not None:
            told.append(report.offsets_behind)
            handle.stop()

    topology = one_bolt(SplitSentence(), spout)
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), on_wave=stop_when_told)
    handle.await_termination()
    assert told[0] >= 0
