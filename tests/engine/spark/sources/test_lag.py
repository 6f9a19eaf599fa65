"""How far a query is behind its sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from anchorbolt.engine import SparkCluster
from anchorbolt.engine.driver.rounds import WaveReport
from anchorbolt.engine.spark.sources.lag import SourceLag, behind
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import ManualClock
from tests.engine.jobs import SplitSentence, one_bolt
from tests.engine.spark.test_spark_cluster import conf_in

BACKLOG = 7


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
    clock = ManualClock()
    lag = SourceLag(clock)
    assert lag.offsets_behind(query) == 3
    query.lastProgress = None
    clock.advance(0.9)
    assert lag.offsets_behind(query) == 3, "asked once a second at most"
    clock.advance(0.2)
    assert lag.offsets_behind(query) is None


def test_a_query_without_progress_tells_nothing() -> None:
    assert SourceLag().offsets_behind(Mock(lastProgress=None)) is None


class Behind(DataSource):
    """A source of numbers without end, which at each batch has `BACKLOG` more than the batch reads."""

    @classmethod
    def name(cls) -> str:
        return "behind"

    def schema(self) -> str:
        return "number INT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        return BehindReader()


class BehindReader(DataSourceStreamReader):
    end = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"numbers": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - Spark's
        self.end = start["numbers"] + 2
        return {"numbers": self.end}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        return {"numbers": self.end + BACKLOG}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["numbers"], end["numbers"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((number,) for number in range(*partition.value))


def numbers(session: Any) -> Any:
    session.dataSource.register(Behind)
    return session.readStream.format("behind").load().selectExpr("CAST(number AS STRING) AS sentence")


@pytest.mark.skipif(not hasattr(DataSourceStreamReader, "reportLatestOffset"), reason="came with PySpark 4.2")
def test_a_wave_tells_by_how_much_the_query_is_behind_a_source_that_tells(spark: SparkSession, tmp_path: Path) -> None:
    told: list[int] = []

    def stop_when_told(report: WaveReport) -> None:
        if report.offsets_behind is not None:
            told.append(report.offsets_behind)
            handle.stop()

    topology = one_bolt(SplitSentence(), StreamSpout(numbers, ["sentence"]))
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), on_wave=stop_when_told)
    handle.await_termination()
    assert told[0] == BACKLOG
