"""What flows through a topology: tuples, declared streams, groupings, and the routing of tuples to tasks."""

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
