"""Bolts that work on windows of tuples, by key and over all tuples of a task, and joins of two streams."""

from anchorbolt.windows.interval_join import IntervalJoin
from anchorbolt.windows.join import JoinBolt
from anchorbolt.windows.keyed import BaseWindowBolt, WindowCollector
from anchorbolt.windows.kinds import Session, Sliding, Tumbling, Window
from anchorbolt.windows.ready_made import Deduplicate, RollingCount, TopN
from anchorbolt.windows.task_window import BaseStatefulWindowedBolt, BaseWindowedBolt
from anchorbolt.windows.task_windows import TupleWindow
from anchorbolt.windows.vectorised import BaseArrowWindowBolt

__all__ = [
    "BaseArrowWindowBolt",
    "BaseStatefulWindowedBolt",
    "BaseWindowBolt",
    "BaseWindowedBolt",
    "Deduplicate",
    "IntervalJoin",
    "JoinBolt",
    "RollingCount",
    "Session",
    "Sliding",
    "TopN",
    "Tumbling",
    "TupleWindow",
    "Window",
    "WindowCollector",
]
