"""Tools for tests of topologies, and of state providers of one's own.

They are imported when they are first named: the conformance suite needs pytest, and `LocalCluster` does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anchorbolt.engine.local import LocalCluster
    from anchorbolt.spouts.feeder import FeederSpout
    from anchorbolt.testing.conformance import StateStorageConformance

__all__ = ["FeederSpout", "LocalCluster", "StateStorageConformance"]

_PLACES = {
    "FeederSpout": "anchorbolt.spouts.feeder",
    "LocalCluster": "anchorbolt.engine.local",
    "StateStorageConformance": "anchorbolt.testing.conformance",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
