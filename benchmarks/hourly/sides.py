"""The sides: our windows, Spark's `transformWithState` with timers, Spark's own windows in the JVM, and Bytewax's."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from anchorbolt.topology.graph import Topology
from benchmarks.anchorbolt_side import BlocksOnRedis, FilesOnRedis, FilesOnSqlite
from benchmarks.bytewax_side import BytewaxSide
from benchmarks.contestant import BatchFigures, ContestantKind, Counts, Place, figures_of
from benchmarks.hourly.events import HOUR_MS, LAG_MS, WORKLOADS
from benchmarks.hourly.topology import hourly_count
from benchmarks.spark_side import SparkSide
from benchmarks.workloads import TASKS, Workload

__all__ = ["CLOSE_BY_KEY", "OURS", "PEERS"]

_WORKS_ON = frozenset(each.name for each in WORKLOADS)
_SPARK_LAG = f"{LAG_MS} milliseconds"


class HoursOnSqlite(FilesOnSqlite):
    """Our windows, in two workers that stay and read the files themselves."""

    works_on = _WORKS_ON
    first_bolt = "parse"

    def __init__(self, spark: SparkSession, workload: Workload, place: Place) -> None:
        """See `ContestantKind`."""
        super().__init__(spark, workload, place)
        self._out = place.directory / "out"

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path) -> Topology:
        return hourly_count(workload, text, out)

    def counts(self) -> Counts:
        return _once(_parquet(self._out, "key", "hour", "count"))


class HoursOnRedis(HoursOnSqlite):
    name = FilesOnRedis.name
    provider = FilesOnRedis.provider


class BlocksOfHoursOnRedis(HoursOnRedis):
    """Our windows by columns."""

    name = BlocksOnRedis.name

    @staticmethod
    def topology(workload: Workload, text: Path, out: Path) -> Topology:
        return hourly_count(workload, text, out, vectorised=True)


class HourOfKey(StatefulProcessor):
    """Counts the events of a key in an hour, and returns the count when the hour has ended."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "count BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        held = self._count.get()
        if held is None:
            self._handle.registerTimer(key[1] + HOUR_MS)
        self._count.update(((held[0] if held is not None else 0) + sum(1 for _ in rows),))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield Row(key=key[0], hour=key[1], count=self._count.get()[0])
        self._count.clear()


class TimersSide(SparkSide):
    """Spark's `transformWithState` with event-time timers, in Python; to its Parquet sink."""

    name = "transformWithState, timers"
    works_on = _WORKS_ON

    def run(self) -> list[BatchFigures]:
        writer = self._counts().writeStream.outputMode("append").trigger(availableNow=True).format("parquet")
        query = writer.option("checkpointLocation", str(self._checkpoint)).option("path", str(self._out)).start()
        query.awaitTermination()
        return figures_of(query)

    def counts(self) -> Counts:
        return _once((row.key, row.hour, row["count"]) for row in self._spark.read.parquet(str(self._out)).collect())

    def _events(self) -> DataFrame:
        lines = self._spark.readStream.option("maxFilesPerTrigger", self._workload.files).text(str(self._text))
        parts = F.split("value", ",")
        events = lines.select(parts[0].alias("key"), parts[1].cast("long").alias("ms"))
        return events.withColumn("at", F.timestamp_millis("ms")).withWatermark("at", _SPARK_LAG)

    def _counts(self) -> DataFrame:
        hour = (F.col("ms") - F.col("ms") % HOUR_MS).alias("hour")
        counted = self._events().select("key", hour, "at").groupBy("key", "hour")
        return counted.transformWithState(HourOfKey(), "key STRING, hour BIGINT, count BIGINT", "Append", "EventTime")


class JvmWindowsSide(TimersSide):
    """Spark's own windows, without Python."""

    name = "groupBy(window)"

    def _counts(self) -> DataFrame:
        counted = self._events().groupBy("key", F.window("at", f"{HOUR_MS} milliseconds")).count()
        return counted.select("key", F.unix_millis("window.start").alias("hour"), "count")


class BytewaxWindowsSide(BytewaxSide):
    """Bytewax's `fold_window`, in two processes, which write the counts to files."""

    name = "Bytewax, fold_window"
    works_on = _WORKS_ON
    dataflow = Path(__file__).resolve().parent.parent / "peers" / "bytewax_hourly.py"

    def __init__(self, spark: None, workload: Workload, place: Place) -> None:
        """See `ContestantKind`."""
        super().__init__(spark, workload, place)
        self._out = place.directory / "out"
        self._out.mkdir()

    def arguments(self, number: int) -> tuple[Any, ...]:
        return str(self._text), str(self._times), str(self._out), number, TASKS, HOUR_MS, LAG_MS

    def counts(self) -> Counts:
        rows = (row for file in self._out.glob("*.csv") for row in csv.reader(file.open()))
        return _once((key, int(hour), int(count)) for key, hour, count in rows)


OURS: tuple[ContestantKind, ...] = (HoursOnRedis, HoursOnSqlite, BlocksOfHoursOnRedis)
CLOSE_BY_KEY = frozenset({BytewaxWindowsSide.name})
"""Have a watermark for each key, and so leave the window of a rare key open until its next event."""
PEERS: tuple[ContestantKind, ...] = (TimersSide, JvmWindowsSide, BytewaxWindowsSide)


def _parquet(out: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    table = ds.dataset(sorted(out.rglob("*.parquet")), format="parquet").to_table(list(columns))
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _once(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, int], int]:
    """Return the counts by key and hour. Raises `ValueError` if one occurs twice."""
    counts = {}
    for key, hour, count in rows:
        if (key, hour) in counts:
            raise ValueError(f"the window of {key!r} and {hour} was closed twice")
        counts[key, hour] = count
    return counts
