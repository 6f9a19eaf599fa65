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
from tests.engine.jobs import word_count
from tests.engine.spark.test_spark_cluster import conf_in, text_spout


def main(folder: Path) -> None:
    """Run the job until its source is empty."""

    def publish(frame: Any, txid: int) -> None:
        rows = sorted(tuple(row) for row in frame.collect())
        marker = folder / "killed"
        if txid == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "published").mkdir(exist_ok=True)
        (folder / "published" / str(txid)).write_text(json.dumps(rows))

    topology = word_count(text_spout(folder / "in"), ParquetSink(str(folder / "out")), DataFrameSink(publish))
    spark = build_session("killed-driver", "local[2]")
    handle = SparkCluster(spark).submit(topology, conf_in(folder), until_empty=True)
    handle.await_termination()
    print(json.dumps({"recovery": handle.recovery.action, "state": handle.state("count")}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
