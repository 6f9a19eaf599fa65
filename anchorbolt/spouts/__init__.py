"""Spouts: the sources of a topology's tuples. `RedisStreamsSpout`, which imports `redis`, is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.spouts.base import BaseRichSpout, Spout, StreamSpout
from anchorbolt.spouts.generator import GeneratorSpout
from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.spouts.redis_streams import RedisStreamsSpout

__all__ = ["BaseRichSpout", "GeneratorSpout", "RedisStreamsSpout", "Spout", "StreamSpout"]

__getattr__ = lazy_names(__name__, {"RedisStreamsSpout": "anchorbolt.spouts.redis_streams"})
