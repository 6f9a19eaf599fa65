"""Runs topologies. Has the public names of `anchorbolt.run`, too: `LocalCluster`, `SparkCluster` and the handle.

A room imports only rooms below it. From the bottom: `plan` assigns tasks to stages and partitions. `task` executes one
task of a round, from decoded blobs to its report. `sources` hosts the spouts that the driver runs itself. `driver`
implements the port of `anchorbolt.checkpoint`, the rounds, and runs the waves. `spark` and `local` run the tasks. The
public names are imported on first use: a Spark worker needs none of them, and `LocalCluster` does not need Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.engine.driver.loop import RunStatus
    from anchorbolt.engine.sources.wave_report import WaveReport
    from anchorbolt.run.handle import RunHandle
    from anchorbolt.run.local_cluster import LocalCluster
    from anchorbolt.run.spark_cluster import SparkCluster

__all__ = ["LocalCluster", "RunHandle", "RunStatus", "SparkCluster", "WaveReport"]

__getattr__ = lazy_names(
    __name__,
    {
        "LocalCluster": "anchorbolt.run.local_cluster",
        "RunHandle": "anchorbolt.run.handle",
        "RunStatus": "anchorbolt.engine.driver.loop",
        "SparkCluster": "anchorbolt.run.spark_cluster",
        "WaveReport": "anchorbolt.engine.sources.wave_report",
    },
)
