"""The engines that run topologies: `LocalCluster` in this process, `SparkCluster` on Spark.

`submit` turns a topology and its configuration into an execution plan and a handle. `driver` implements the port of
`anchorbolt.checkpoint`, the rounds, and runs the waves that no streaming query causes. `spouts` hosts the spouts that
the driver runs itself. `task` executes one task of a round, from decoded blobs to its report. `local` and `spark` run
the tasks. `LocalCluster` and `SparkCluster` are imported on first use: a Spark worker needs neither, and
`LocalCluster` does not need Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.engine.driver.wave_report import WaveReport
    from anchorbolt.engine.local.cluster import LocalCluster
    from anchorbolt.engine.spark.cluster import SparkCluster
    from anchorbolt.engine.submit.handle import RunHandle, RunStatus

__all__ = ["LocalCluster", "RunHandle", "RunStatus", "SparkCluster", "WaveReport"]

__getattr__ = lazy_names(
    __name__,
    {
        "LocalCluster": "anchorbolt.engine.local.cluster",
        "RunHandle": "anchorbolt.engine.submit.handle",
        "RunStatus": "anchorbolt.engine.submit.handle",
        "SparkCluster": "anchorbolt.engine.spark.cluster",
        "WaveReport": "anchorbolt.engine.driver.wave_report",
    },
)
