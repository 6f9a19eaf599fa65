"""Tuples, their streams, and the groupings that route tuples to tasks. To add a grouping, see `declaration`."""

from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import CustomStreamGrouping, GlobalStreamId, OutputFieldsDeclarer
from anchorbolt.streams.hashing import stable_hash
from anchorbolt.streams.tuple import Tuple

__all__ = ["CustomStreamGrouping", "GlobalStreamId", "OutputFieldsDeclarer", "TopologyContext", "Tuple", "stable_hash"]
