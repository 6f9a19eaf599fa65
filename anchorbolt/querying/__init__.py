"""Answers questions from the state of a topology that runs or is stopped: `open_state`, `state_frame` with Spark."""

from anchorbolt.querying.opening import open_state
from anchorbolt.querying.reader import StateReader

__all__ = ["StateReader", "open_state"]
