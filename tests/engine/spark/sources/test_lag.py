"""How far a query is behind its sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.sources import lag as files
from anchorbolt.engine.spark.sources.lag import ALL_SPOUTS, Lag, SourceLag, behind
from anchorbolt.observe.history.records import Wave
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import ManualClock
from tests.engine.jobs import SplitSentence, one_bolt, text_spout, write_lines
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


# What Spark 4.3 tells of a topic, of a folder of files and of a second topic; without their descriptions.
SOURCES = [
    {"endOffset": {"words": {"0": 10, "1": 4}}, "latestOffset": {"words": {"0": 15, "1": 4}}},
    {"endOffset": {"logOffset": 1}, "latestOffset": None},
    {"endOffset": {"lines": {"0": 2}}, "latestOffset": {"lines": {"0": 4}}},
]
FILES = [None, 12, None]


ENDS = b'v1\n{}\n{"words": {"0": 12, "1": 4}}\n{"logOffset": 2}\n{"lines": {"0": 4}}\n'
NAMED = b'v2\n{}\nlines:{"lines": {"0": 4}}\nfiles:{"logOffset": 2}\nwords:{"words": {"0": 12, "1": 4}}\n'


def query_of(sources: list[Any]) -> Any:
    return Mock(lastProgress=SimpleNamespace(json=json.dumps({"sources": sources})))


@pytest.mark.parametrize("ends", [ENDS, NAMED], ids=["by number", "by name"])
def test_what_a_batch_reads_is_taken_from_what_each_spouts_source_has(ends: bytes) -> None:
    query, clock = query_of(SOURCES), ManualClock()
    lag = SourceLag(["words", "files", "lines"], clock, lambda query: FILES)
    assert lag.of(query, ends) == Lag({"words": 3, "lines": 0}, {"files": 12})
    query.lastProgress = None
    clock.advance(0.9)
    assert lag.of(query, ends.replace(b"12", b"14")).offsets == {"words": 1, "lines": 0}
    clock.advance(0.2)  # the progress is asked for once a second at most
    assert lag.of(query, ends).offsets == {}


def test_a_source_of_which_nothing_was_read_yet_is_behind_by_all_that_it_has() -> None:
    lag = SourceLag(["words", "files", "lines"], ManualClock(), lambda query: FILES)
    offsets = ENDS.replace(b'{"lines": {"0": 4}}', b"-")  # Spark's sign for it
    assert lag.of(query_of(SOURCES), offsets).offsets == {"words": 3, "lines": 4}
    assert lag.of(query_of(SOURCES), ENDS.replace(b'{"logOffset": 2}', b"[" * 100_000)).offsets == {
        "words": 3,
        "lines": 0,
    }


def test_without_known_offsets_the_progress_is_all_that_is_known() -> None:
    lag = SourceLag(["words", "files", "lines"], ManualClock(), lambda query: FILES)
    for offsets in (b"", b"v3", ENDS[:20], NAMED.replace(b"words:", b"others:")):
        assert lag.of(query_of(SOURCES), offsets).offsets == {"words": 5, "lines": 2}


def test_sources_are_added_up_if_a_spout_has_several_of_them() -> None:
    lag = SourceLag(["words", "files"], ManualClock(), lambda query: FILES)
    assert lag.of(query_of(SOURCES), ENDS) == Lag({ALL_SPOUTS: 3}, {ALL_SPOUTS: 12})


def test_a_query_without_progress_tells_nothing() -> None:
    assert SourceLag(["words"], ManualClock(), lambda query: ()).of(Mock(lastProgress=None), ENDS) == Lag()


def test_the_files_that_wait_are_told_by_spout(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "in", [[f"sentence {number}"] for number in range(5)])
    topology = one_bolt(SplitSentence(), text_spout(folder))

    def stop_at_the_end(report: WaveReport) -> None:
        if report.txid == 4:
            handle.stop()

    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), on_wave=stop_at_the_end)
    handle.await_termination()
    (spout,) = topology.spouts
    # The first wave may end before Spark has returned the query.
    told = [report.source_files_waiting for report in handle.reports][1:]
    assert told == [{spout: 3}, {spout: 2}, {spout: 1}, {spout: 0}]
    assert [record.files_waiting for record in handle.observe().records if isinstance(record, Wave)][1:] == [3, 2, 1, 0]
    assert handle.reports[-1].offsets_behind is None


def test_a_spark_that_keeps_its_files_otherwise_tells_nothing_and_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "_has_failed", False)
    query = Mock()
    query._jsq.streamingQuery.side_effect = Py4JError("streamingQuery does not exist in the JVM")
    assert files.waiting_files(query) == files.waiting_files(query) == ()
    assert query._jsq.streamingQuery.call_count == 1


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
    # A wave knows what the source had when the batch before was planned, and this batch has read two more since.
    assert told[0] == BACKLOG - 2
