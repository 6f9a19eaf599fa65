"""Spark's sides, with state in RocksDB: `transformWithState` with rows or pandas, and `groupBy().count()` in the JVM.

They get every setting that helps them: all of Anchorbolt's session settings that work with RocksDB, RocksDB with
changelog checkpoints, as many shuffle partitions as cores, and words that the JVM splits. Except for Parquet, they emit
only one row per distinct word and batch.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, DataFrameReader, GroupedData, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.contestant import BatchFigures, Counts, Place, figures_of
from benchmarks.workloads import EVERY, HUGE, LARGE, Output, Workload

__all__ = ["JvmSide", "PandasSide", "SparkSide"]

_OUTPUT = "word STRING, count BIGINT"
_STATE = "count BIGINT"
_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
    # As Anchorbolt's, which also turns off checksums beside local files.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
}


class CountOfWord(StatefulProcessor):
    """Counts a word; returns its count after the batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", _STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        held = self._count.get()
        count = (held[0] if held is not None else 0) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(word=key[0], count=count)


class RunningCountOfWord(CountOfWord):
    """Counts a word; returns the count after each of its occurrences, as our topology does."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        held = self._count.get()
        count = held[0] if held is not None else 0
        for _ in rows:
            count += 1
            yield Row(word=key[0], count=count)
        self._count.update((count,))


class CountOfWordInPandas(CountOfWord):
    """The same, with the rows of a word as data frames."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        held = self._count.get()
        count = (held[0] if held is not None else 0) + sum(map(len, rows))
        self._count.update((count,))
        yield pd.DataFrame({"word": key[0], "count": [count]})


class SparkSide:
    """Spark's `transformWithState` as a contestant."""

    name = "transformWithState"
    works_on = EVERY
    output_mode = "append"

    def __init__(self, spark: SparkSession, workload: Workload, place: Place) -> None:
        """See `ContestantKind`."""
        self._spark = spark
        spark.conf.set("spark.sql.shuffle.partitions", workload.count_tasks)
        self._workload = workload
        self._text = place.text
        self._checkpoint = place.directory / "checkpoint"
        self._out = place.directory / "out"

    @staticmethod
    def session(master: str) -> SparkSession:
        # The Python workers, and the driver's own, find this module only through this path.
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")])
        )
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.appName("benchmark-transform-with-state").master(master)
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
        session: SparkSession = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    def run(self) -> list[BatchFigures]:
        writer = self._counts().writeStream.outputMode(self.output_mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        if self._workload.output is Output.PARQUET:
            writer = writer.format("parquet").option("path", str(self._out))
        else:
            writer = writer.format("noop")
        query = writer.start()
        query.awaitTermination()
        return figures_of(query)

    def counts(self) -> Counts:
        rows = self._state().load(str(self._checkpoint)).select("key.word", "value.count").toLocalIterator()
        return {row["word"]: row["count"] for row in rows}

    def _words(self) -> GroupedData:
        lines = self._spark.readStream.option("maxFilesPerTrigger", self._workload.files).text(str(self._text))
        return lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word")

    def _state(self) -> DataFrameReader:
        return self._spark.read.format("statestore").option("stateVarName", "count")

    def _counts(self) -> DataFrame:
        processor = RunningCountOfWord() if self._workload.output is Output.PARQUET else CountOfWord()
        return self._words().transformWithState(processor, _OUTPUT, "Append", "None")


class PandasSide(SparkSide):
    """Spark's `transformWithStateInPandas` as a contestant."""

    name = "transformWithStateInPandas"
    works_on = frozenset({"1m"})  # it makes a data frame of each word of a batch, so large batches are its best

    def _counts(self) -> DataFrame:
        return self._words().transformWithStateInPandas(CountOfWordInPandas(), _OUTPUT, "Append", "None")


class JvmSide(SparkSide):
    """Spark's own count, without Python, as a contestant."""

    name = "groupBy.count"
    works_on = LARGE | HUGE
    output_mode = "update"

    def _state(self) -> DataFrameReader:
        return self._spark.read.format("statestore")

    def _counts(self) -> DataFrame:
        return self._words().count()
