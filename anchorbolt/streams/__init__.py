"""Tuples, the streams they belong to, and the groupings that route them to tasks."""

from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.groupings import CustomStreamGrouping, GlobalStreamId
from anchorbolt.streams.hashing import stable_hash
from anchorbolt.streams.tuple import Tuple

__all__ = [
    "CustomStreamGrouping",
    "GlobalStreamId",
    "OutputFieldsDeclarer",
    "TopologyContext",
    "Tuple",
    "stable_hash",
]
