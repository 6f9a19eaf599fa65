"""The engines that run topologies: `LocalCluster` in this process, `SparkCluster` on Spark.

They are imported when they are first named: a Spark worker needs neither, and `LocalCluster` does not need Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anchorbolt.engine.handle import RunHandle
    from anchorbolt.engine.local import LocalCluster
    from anchorbolt.engine.spark.cluster import SparkCluster

__all__ = ["LocalCluster", "RunHandle", "SparkCluster"]

_PLACES = {
    "LocalCluster": "anchorbolt.engine.local",
    "RunHandle": "anchorbolt.engine.handle",
    "SparkCluster": "anchorbolt.engine.spark.cluster",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
