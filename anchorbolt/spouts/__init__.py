"""Spouts: where a topology's tuples come from."""

from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.stream import StreamSpout

__all__ = ["Spout", "StreamSpout"]
