"""Our hourly count. The workers import this module, so it imports no engine."""

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anchorbolt.bolts import ArrowOutputCollector, BaseArrowBolt, BaseBasicBolt, ParquetSink
from anchorbolt.bolts.collector import BasicOutputCollector
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import FilesTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import BaseArrowWindowBolt, BaseWindowBolt, Tumbling
from anchorbolt.windows.keyed import WindowCollector
from anchorbolt.windows.kinds import Window
from benchmarks.hourly.events import LAG_MS
from benchmarks.workloads import TASKS, Workload

__all__ = ["hourly_count"]

_RESULT = pa.schema([("key", pa.string()), ("hour", pa.int64()), ("count", pa.int64())])


def hourly_count(workload: Workload, text: Path, out: Path, *, vectorised: bool = False) -> Topology:
    """Return the topology that counts the events of the files in `text`, and writes the counts to `out`."""
    spout = FilesTransactionalSpout(str(text), ["event"], take_files=workload.files, take_bytes=None)
    builder = TransactionalTopologyBuilder(workload.name, "events", spout, TASKS)
    parse, hours = (ParseBlocks(), HoursOfBlocks()) if vectorised else (Parse(), Hours())
    builder.set_bolt("parse", parse, TASKS).shuffle_grouping("events")
    builder.set_committer_bolt("hours", hours, TASKS).fields_grouping("parse", "key")
    builder.set_bolt("out", ParquetSink(str(out)), TASKS).local_or_shuffle_grouping("hours")
    return builder.build_topology()


class Parse(BaseBasicBolt):
    """Divides lines into key and time; the first value is the attempt at the batch."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        key, at = tup["event"].split(",")
        collector.emit((tup[0], key, int(at)))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "key", "at")


class Hours(BaseWindowBolt):
    """Counts the events of a key in each hour."""

    window = Tumbling("1 h")
    event_time = "at"
    lag = f"{LAG_MS} ms"

    def create(self) -> int:
        return 0

    def add(self, value: int, tup: Tuple) -> int:
        return value + 1

    def close(self, key: Any, window: Window, value: int, collector: WindowCollector) -> None:
        collector.emit((key, window.start, value))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(_RESULT)


class ParseBlocks(BaseArrowBolt):
    """The same by columns."""

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        parts = pc.split_pattern(batch["event"], ",")
        collector.emit_batch([pc.list_element(parts, 0), pc.list_element(parts, 1).cast(pa.int64())])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(pa.schema([("key", pa.string()), ("at", pa.int64())]))


class HoursOfBlocks(BaseArrowWindowBolt):
    """The same by columns."""

    window, event_time, lag = Hours.window, Hours.event_time, Hours.lag
    aggregates = MappingProxyType({"count": "count"})

    def close_batch(self, closed: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        collector.emit_batch([closed["key"], closed["start"], closed["count"]])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(_RESULT)
