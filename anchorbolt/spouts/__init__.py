"""Spouts: the sources of a topology's tuples."""

from anchorbolt.spouts.stream import Spout, StreamSpout

__all__ = ["Spout", "StreamSpout"]
