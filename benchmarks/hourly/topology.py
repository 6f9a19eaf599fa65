"""Our hourly count. The workers import this module, so it imports no engine."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from anchorbolt.bolts import BaseBasicBolt, ParquetSink
from anchorbolt.bolts.collector import BasicOutputCollector
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import FilesTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import BaseWindowBolt, Tumbling
from anchorbolt.windows.keyed import WindowCollector
from anchorbolt.windows.kinds import Window
from benchmarks.hourly.events import LAG_MS
from benchmarks.workloads import TASKS, Workload

__all__ = ["hourly_count"]


def hourly_count(workload: Workload, text: Path, out: Path) -> Topology:
    """Return the topology that counts the events of the files in `text`, and writes the counts to `out`."""
    spout = FilesTransactionalSpout(str(text), ["event"], take_files=workload.files, take_bytes=None)
    builder = TransactionalTopologyBuilder(workload.name, "events", spout, TASKS)
    builder.set_bolt("parse", Parse(), TASKS).shuffle_grouping("events")
    builder.set_committer_bolt("hours", Hours(), TASKS).fields_grouping("parse", "key")
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
        declarer.declare(pa.schema([("key", pa.string()), ("hour", pa.int64()), ("count", pa.int64())]))
