"""Answers questions from the state of a topology that runs or is stopped, without Spark: `open_state`."""

from anchorbolt.querying.opening import open_state
from anchorbolt.querying.reader import StateReader

__all__ = ["StateReader", "open_state"]
