"""The process that the demo kills: it runs the topology until its source is empty, and reports events on stdout.

python demo_job.py CONF.json
"""

import json
import os
import sys
from pathlib import Path

from crash_demo.events import Ended, Recovered, WaveCommitted, to_line
from crash_demo.topology import topology

from anchorbolt.engine import WaveReport
from anchorbolt.run.spark_cluster import SparkCluster


def main() -> None:
    # Spark's JVM inherits our stdout and may write to it. Only this process may hold the pipe to the demo, so that the
    # pipe ends together with this process.
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(event: Recovered | WaveCommitted | Ended) -> None:
        pipe.write(to_line(event))
        pipe.flush()

    def on_wave(report: WaveReport) -> None:
        tell(WaveCommitted(report.txid, report.rounds, report.tuples_in.get("count", 0)))

    conf = json.loads(Path(sys.argv[1]).read_text())
    handle = SparkCluster(master="local[2]").submit(topology(conf), conf, until_empty=True, on_wave=on_wave)
    recovery = handle.recovery
    assert recovery is not None
    tell(Recovered(recovery.action, recovery.txid, recovery.generation))
    handle.await_termination()
    tell(Ended(handle.state("count")))


if __name__ == "__main__":
    main()
