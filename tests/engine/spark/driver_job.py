"""A job whose driver is killed while its sink publishes, once: `python -m tests.engine.spark.driver_job FOLDER`.

Prints what recovery did, and the state at the end, as JSON.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import CountWords, SplitSentence


def kill_once(folder: Path, process: int) -> None:
    """Kill a process unless that was done before."""
    marker = folder / "killed"
    if not marker.exists():
        marker.touch()
        os.kill(process, signal.SIGKILL)


def main(folder: Path) -> None:
    """Run the job until its source is empty."""

    def publish(frame: Any, txid: int) -> None:
        rows = sorted(tuple(row) for row in frame.collect())
        if txid == 1:
            kill_once(folder, os.getpid())
        (folder / "published").mkdir(exist_ok=True)
        (folder / "published" / str(txid)).write_text(json.dumps(rows))

    builder = TopologyBuilder()
    source = str(folder / "in")
    spout = StreamSpout(lambda spark: spark.readStream.option("maxFilesPerTrigger", 1).text(source), ["sentence"])
    builder.set_spout("sentences", spout)
    builder.set_bolt("split", SplitSentence()).shuffle_grouping("sentences")
    builder.set_bolt("count", CountWords(), 2).fields_grouping("split", "word")
    builder.set_bolt("parquet", ParquetSink(str(folder / "out"))).global_grouping("count")
    builder.set_bolt("frames", DataFrameSink(publish)).global_grouping("count")
    conf = {
        "topology.state.provider.config": {"directory": str(folder / "state")},
        "topology.checkpoint.location": str(folder / "checkpoint"),
    }
    spark = build_session("killed-driver", "local[2]")
    handle = SparkCluster(spark).submit(builder.create_topology("killed"), conf, until_empty=True)
    handle.await_termination()
    assert handle.recovery is not None
    print(json.dumps({"recovery": handle.recovery.action, "state": handle.state("count")}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
