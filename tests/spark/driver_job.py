"""A job whose driver is killed at a named point, once: `python -m tests.spark.driver_job FOLDER POINT`.

Prints what recovery did, and the state at the end, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector, DataFrameSink, ParquetSink
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.reports import WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import StreamSpout
from anchorbolt.streams import OutputFieldsDeclarer
from anchorbolt.topology import TopologyBuilder
from anchorbolt.tuples import Tuple
from tests.engine.jobs import CountWords, SplitSentence


def kill_once(folder: Path, process: int) -> None:
    """Kill a process unless that was done before."""
    marker = folder / "killed"
    if not marker.exists():
        marker.touch()
        os.kill(process, signal.SIGKILL)


class KillsDriver(BaseBasicBolt):
    """Passes counts on; kills the driver from a worker, when state is being staged beside it."""

    def __init__(self, folder: str, driver: int | None) -> None:
        self.folder, self.driver = folder, driver

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if self.driver is not None and (tup["word"], tup["count"]) == ("dog", 2):
            kill_once(Path(self.folder), self.driver)
        collector.emit((tup["word"], tup["count"]))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")


def main(folder: Path, point: str) -> None:
    """Run the job until its source is empty."""

    def publish(frame: Any, txid: int) -> None:
        rows = sorted(tuple(row) for row in frame.collect())
        if point == "publish" and txid == 1:
            kill_once(folder, os.getpid())
        (folder / "published").mkdir(exist_ok=True)
        (folder / "published" / str(txid)).write_text(json.dumps(rows))

    def on_wave(report: WaveReport) -> None:
        if point == "committed" and report.txid == 1:
            kill_once(folder, os.getpid())

    builder = TopologyBuilder()
    source = str(folder / "in")
    spout = StreamSpout(
        lambda spark: spark.readStream.option("maxFilesPerTrigger", 1).text(source), ["sentence"]
    )
    builder.set_spout("sentences", spout)
    builder.set_bolt("split", SplitSentence()).shuffle_grouping("sentences")
    builder.set_bolt("count", CountWords(), 2).fields_grouping("split", "word")
    killer = KillsDriver(str(folder), os.getpid() if point == "prepared" else None)
    builder.set_bolt("kill", killer).shuffle_grouping("count")
    builder.set_bolt("parquet", ParquetSink(str(folder / "out"))).global_grouping("kill")
    builder.set_bolt("frames", DataFrameSink(publish)).global_grouping("kill")
    conf = {
        "topology.state.provider.config": {"directory": str(folder / "state")},
        "topology.checkpoint.location": str(folder / "checkpoint"),
    }
    spark = build_session("killed-driver", "local[2]")
    handle = SparkCluster(spark).submit(
        builder.create_topology("killed"), conf, until_empty=True, on_wave=on_wave
    )
    handle.await_termination()
    assert handle.recovery is not None
    txids = [report.txid for report in handle.reports]
    print(json.dumps({"recovery": handle.recovery.action, "state": handle.state("count"), "txids": txids}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
