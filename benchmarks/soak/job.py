"""The job of the soak: its settings, its topology, and its input. Workers import this module."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import BaseRichSpout, StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology

SOURCES = ("rate", "files", "messages")


@dataclass(frozen=True)
class Job:
    """The settings of the driver's process; `home` is the directory of the run."""

    home: str
    source: str
    store: Mapping[str, Any]  # the configuration's keys of the state's provider
    keys: int
    rows: int  # of a wave from the rate source; of a file
    files_per_wave: int
    wave_ms: int
    workers: int = 0  # that stay

    @classmethod
    def read(cls, file: Path) -> "Job":
        return cls(**json.loads(file.read_text()))

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    def path(self, name: str) -> Path:
        return Path(self.home) / name

    @property
    def input(self) -> Path:
        return self.path("input")

    def conf(self) -> dict[str, Any]:
        return {
            **self.store,
            "topology.checkpoint.location": str(self.path("checkpoint")),
            "topology.state.checkpoint.interval.ms": max(100, self.wave_ms),  # messages do not wait for it
            "topology.workers": self.workers,
        }


class Count(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words, and emits each row with the count of its word then."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        count = self.counts.get(word, 0) + 1
        self.counts.put(word, count)
        self.collector.emit((tup["row"], word, count), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("row", "word", "count")


class Messages(BaseRichSpout):
    """Emits the next rows each `wave_ms`."""

    def __init__(self, job: Job) -> None:
        self.rows, self.keys, self.every_s = job.rows, job.keys, job.wave_ms / 1000

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.emitted, self.due = collector, 0, time.monotonic()

    def next_tuple(self) -> None:
        if time.monotonic() < self.due:
            return
        self.due = max(self.due + self.every_s, time.monotonic() - 1)
        for row in range(self.emitted, self.emitted + self.rows):
            self.collector.emit([row, f"w{row % self.keys}"], msg_id=row)
        self.emitted += self.rows

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("row", "word")


def topology(job: Job) -> Topology:
    """Return the word count. Each input row is a number from 0 on, its word is `w` and its remainder by `job.keys`.

    Messages have no sink: it would write a file for each of many waves.
    """

    def rows(spark: SparkSession) -> DataFrame:
        if job.source == "rate":
            frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", job.rows).load()
        else:
            frame = spark.readStream.option("maxFilesPerTrigger", job.files_per_wave).text(str(job.input))
        number = frame["value"].cast("long")
        return frame.select(number.alias("row")).selectExpr("row", f"concat('w', row % {job.keys}) as word")

    builder = TopologyBuilder()
    messages = job.source == "messages"
    builder.set_spout("rows", Messages(job) if messages else StreamSpout(rows, ["row", "word"]))
    builder.set_bolt("count", Count(), 2).fields_grouping("rows", "word")
    if not messages:
        builder.set_bolt("out", ParquetSink(str(job.path("sink")))).global_grouping("count")
    return builder.create_topology("soak")


def add_file(job: Job, number: int) -> None:
    """Write input file `number`; Spark sees it only when it is complete."""
    first = number * job.rows
    hidden = job.input / f".{number}"
    hidden.write_text("".join(f"{row}\n" for row in range(first, first + job.rows)))
    os.rename(hidden, job.input / f"{number:08d}.txt")
