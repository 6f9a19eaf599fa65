"""The engines that run topologies: `LocalCluster` in this process, `SparkCluster` on Spark.

They are imported when they are first named: a Spark worker needs neither, and `LocalCluster` does not need Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.lazy import lazy_names

if TYPE_CHECKING:
    from anchorbolt.engine.handle import RunHandle
    from anchorbolt.engine.local import LocalCluster
    from anchorbolt.engine.spark.cluster import SparkCluster

__all__ = ["LocalCluster", "RunHandle", "SparkCluster"]

__getattr__ = lazy_names(
    __name__,
    {
        "LocalCluster": "anchorbolt.engine.local",
        "RunHandle": "anchorbolt.engine.handle",
        "SparkCluster": "anchorbolt.engine.spark.cluster",
    },
)
