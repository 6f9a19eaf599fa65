"""Windows and joins over them."""

from anchorbolt.windows.interval_join import IntervalJoin
from anchorbolt.windows.join import JoinBolt
from anchorbolt.windows.task_window import BaseStatefulWindowedBolt, BaseWindowedBolt
from anchorbolt.windows.task_windows import Window

__all__ = ["BaseStatefulWindowedBolt", "BaseWindowedBolt", "IntervalJoin", "JoinBolt", "Window"]
