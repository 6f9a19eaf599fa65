"""Tools to test topologies and custom state providers.

The conformance suite needs pytest, `check_agreement` needs Hypothesis, and `FakeRedisStateProvider` needs fakeredis:
these are imported on first use, as is `LocalCluster`, which Spark's workers do not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.faults.injection import Fault, FaultAction, Victim
from anchorbolt.faults.points import FaultPoint
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.testing.capture import ManualClock, TupleCapture
from anchorbolt.testing.crash import CrashReport, CrashRunner, CrashTestError
from anchorbolt.util.imports import is_installed, lazy_names

if TYPE_CHECKING:
    from anchorbolt.run.local_cluster import LocalCluster
    from anchorbolt.testing.agreement import check_agreement
    from anchorbolt.testing.conformance import StateStorageConformance
    from anchorbolt.testing.fake_redis import FakeRedisStateProvider

__all__ = [
    "CrashReport",
    "CrashRunner",
    "CrashTestError",
    "FakeRedisStateProvider",
    "Fault",
    "FaultAction",
    "FaultPoint",
    "FeederSpout",
    "LocalCluster",
    "ManualClock",
    "StateStorageConformance",
    "TupleCapture",
    "Victim",
    "check_agreement",
]

# The module of each name, and the package that it requires.
_LAZY = {
    "FakeRedisStateProvider": ("anchorbolt.testing.fake_redis", "fakeredis"),
    "LocalCluster": ("anchorbolt.run.local_cluster", "anchorbolt"),
    "StateStorageConformance": ("anchorbolt.testing.conformance", "pytest"),
    "check_agreement": ("anchorbolt.testing.agreement", "hypothesis"),
}
# `from anchorbolt.testing import *` gives the names that can be imported here.
for _name, (_, _package) in _LAZY.items():
    if not is_installed(_package):
        __all__.remove(_name)
__getattr__ = lazy_names(__name__, {name: module for name, (module, _) in _LAZY.items()})
