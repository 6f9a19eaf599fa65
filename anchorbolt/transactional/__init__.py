"""Transactional topologies. The spouts over Redis, which import `redis`, are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt.util.imports import lazy_names

if TYPE_CHECKING:
    from anchorbolt.transactional.redis_streams import OpaqueRedisTransactionalSpout, RedisTransactionalSpout

__all__ = ["OpaqueRedisTransactionalSpout", "RedisTransactionalSpout"]

_REDIS_STREAMS = "anchorbolt.transactional.redis_streams"

__getattr__ = lazy_names(
    __name__, {"OpaqueRedisTransactionalSpout": _REDIS_STREAMS, "RedisTransactionalSpout": _REDIS_STREAMS}
)
