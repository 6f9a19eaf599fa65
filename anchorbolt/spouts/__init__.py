"""Spouts: the sources of a topology's tuples."""

from anchorbolt.spouts.rich import BaseRichSpout
from anchorbolt.spouts.stream import Spout, StreamSpout

__all__ = ["BaseRichSpout", "Spout", "StreamSpout"]
