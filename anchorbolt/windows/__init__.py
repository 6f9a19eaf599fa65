"""Bolts that work on windows of tuples, by time."""

from anchorbolt.windows.keyed import BaseWindowBolt, WindowCollector
from anchorbolt.windows.kinds import Session, Sliding, Tumbling, Window
from anchorbolt.windows.ready_made import Deduplicate, RollingCount, TopN

__all__ = [
    "BaseWindowBolt",
    "Deduplicate",
    "RollingCount",
    "Session",
    "Sliding",
    "TopN",
    "Tumbling",
    "Window",
    "WindowCollector",
]
