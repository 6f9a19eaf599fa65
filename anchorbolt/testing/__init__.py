"""Tools to test topologies and your own state providers.

A name is imported on first use: the conformance suite needs pytest, `check_agreement` needs Hypothesis,
`FakeRedisStateProvider` needs fakeredis, and `LocalCluster` needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.util.lazy_imports import is_installed, lazy_names

if TYPE_CHECKING:
    from anchorbolt.engine.local.cluster import LocalCluster
    from anchorbolt.faults.injection import Fault, FaultAction, Victim
    from anchorbolt.faults.points import FaultPoint
    from anchorbolt.spouts.feeder import FeederSpout
    from anchorbolt.testing.agreement import check_agreement
    from anchorbolt.testing.capture import TupleCapture
    from anchorbolt.testing.conformance import StateStorageConformance
    from anchorbolt.testing.crash import CrashReport, CrashRunner, CrashTestError
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
        "CrashReport": "anchorbolt.testing.crash",
        "CrashRunner": "anchorbolt.testing.crash",
        "CrashTestError": "anchorbolt.testing.crash",
        "FakeRedisStateProvider": "anchorbolt.testing.fake_redis",
        "Fault": "anchorbolt.faults.injection",
        "FaultAction": "anchorbolt.faults.injection",
        "FaultPoint": "anchorbolt.faults.points",
        "FeederSpout": "anchorbolt.spouts.feeder",
        "LocalCluster": "anchorbolt.engine.local.cluster",
        "StateStorageConformance": "anchorbolt.testing.conformance",
        "TupleCapture": "anchorbolt.testing.capture",
        "Victim": "anchorbolt.faults.injection",
        "check_agreement": "anchorbolt.testing.agreement",
    },
)
