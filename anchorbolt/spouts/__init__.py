"""Spouts: the sources of a topology's tuples."""

from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.stream import StreamSpout

__all__ = ["Spout", "StreamSpout"]
