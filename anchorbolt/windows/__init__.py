"""Windows and joins over them."""

from anchorbolt.windows.join import JoinBolt
from anchorbolt.windows.task_window import BaseStatefulWindowedBolt, BaseWindowedBolt
from anchorbolt.windows.task_windows import Window

__all__ = ["BaseStatefulWindowedBolt", "BaseWindowedBolt", "JoinBolt", "Window"]
