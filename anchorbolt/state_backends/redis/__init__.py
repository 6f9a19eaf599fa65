"""State in Redis and Redis Cluster; only this package imports `redis`. `storage` lists the keys of a task."""

from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider

__all__ = ["RedisClusterStateProvider", "RedisStateProvider"]
