"""Tools to test topologies and your own state providers.

The conformance suite needs pytest, `check_agreement` needs Hypothesis, and `FakeRedisStateProvider` needs fakeredis:
these are imported on first use, as is `LocalCluster`, which Spark's workers do not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.faults.injection import Fault, FaultAction, Victim
from anchorbolt.faults.points import FaultPoint
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.testing.capture import TupleCapture
from anchorbolt.testing.crash import CrashReport, CrashRunner, CrashTestError
from anchorbolt.util.imports import is_installed, lazy_names

if TYPE_CHECKING:
    from anchorbolt.engine.local.cluster import LocalCluster
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
    "StateStorageConformance",
    "TupleCapture",
    "Victim",
    "check_agreement",
]

# `from anchorbolt.testing import *` gives what can be imported here.
for _name, _package in (
    ("StateStorageConformance", "pytest"),
    ("check_agreement", "hypothesis"),
    ("FakeRedisStateProvider", "fakeredis"),
):
    if not is_installed(_package):
        __all__.remove(_name)

__getattr__ = lazy_names(
    __name__,
    {
        "FakeRedisStateProvider": "anchorbolt.testing.fake_redis",
        "LocalCluster": "anchorbolt.engine.local.cluster",
        "StateStorageConformance": "anchorbolt.testing.conformance",
        "check_agreement": "anchorbolt.testing.agreement",
    },
)
