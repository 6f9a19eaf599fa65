"""The driver's process: runs the job until it gets SIGTERM or its parent is gone, then leaves the state behind.

It appends a line for each wave to `waves.csv` and one for each of Spark's batches to `batches.csv`.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from benchmarks.soak.job import Job, topology

_BATCHES_S = 20.0  # Spark keeps the progress of the last 100 batches


def main(job: Job) -> None:
    stopped, parent = threading.Event(), os.getppid()
    # Java takes its whole heap at once: a heap that grows for hours within -Xmx would hide what else grows.
    java = f"-Xms1g -XX:+AlwaysPreTouch -Xlog:gc:file={job.path('gc.log')} -Djava.io.tmpdir={os.environ['TMPDIR']}"
    conf = {"spark.driver.extraJavaOptions": java, "spark.local.dir": str(job.path("spark-local"))}
    spark = build_session("soak", "local[2]", SparkOptions(conf=conf), workers=job.workers)
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with job.path("waves.csv").open("w") as waves, job.path("batches.csv").open("w") as batches:

        def on_wave(report: WaveReport) -> None:
            rows = report.tuples_in.get("rows", 0)
            print(f"{time.time():.3f},{report.batch_id},{rows},{report.total_ms:.1f}", file=waves, flush=True)

        handle = SparkCluster(spark).submit(topology(job), job.conf(), on_wave=on_wave)
        written, at = -1, time.monotonic()
        while not stopped.is_set() and os.getppid() == parent and not handle.await_termination(0.2):
            if job.source != "messages" and time.monotonic() - at > _BATCHES_S:
                written, at = _write_batches(handle.query, written, batches), time.monotonic()
        if job.source != "messages":
            _write_batches(handle.query, written, batches)
        handle.stop()
    job.path("state.json").write_text(json.dumps(handle.state("count")))
    spark.stop()


def _write_batches(query: Any, written: int, file: TextIO) -> int:
    """Write the time of each new batch, and what of it Spark needed to find the new input; return the last batch."""
    for progress in query.recentProgress:
        times = progress["durationMs"]
        if progress["batchId"] > written and "triggerExecution" in times and progress["numInputRows"]:
            written = progress["batchId"]
            print(f"{written},{times['triggerExecution']},{times.get('latestOffset', 0)}", file=file, flush=True)
    return written


if __name__ == "__main__":
    main(Job.read(Path(sys.argv[1])))
