"""State in Redis and Redis Cluster: the only room that imports `redis`. `storage` says which key holds what."""

from anchorbolt.state_backends.redis.cluster_provider import RedisClusterStateProvider
from anchorbolt.state_backends.redis.provider import RedisStateProvider

__all__ = ["RedisClusterStateProvider", "RedisStateProvider"]
