"""State in Redis and Redis Cluster; only this room imports `redis`. The module `storage` lists the keys of a task."""

from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider

__all__ = ["RedisClusterStateProvider", "RedisStateProvider"]
