"""The stores of a demo run: one context manager per provider, which yields the job's configuration for it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from crash_demo.hbase_server import hbase
from crash_demo.redis_servers import redis_cluster, redis_server

__all__ = ["Provider", "provided"]


class Provider(str, Enum):
    """The state providers that the demo knows."""

    SQLITE = "sqlite"
    REDIS = "redis"
    REDIS_CLUSTER = "redis-cluster"
    HBASE = "hbase"


def provided(provider: Provider, work: Path) -> AbstractContextManager[Mapping[str, Any]]:
    """Start the servers of a provider, and stop them at the end of the block; yields the job's configuration.

    Raises:
        DemoError: On entering, where it cannot be started.
    """
    return _STARTERS[provider](work)


@contextmanager
def _sqlite(work: Path) -> Iterator[Mapping[str, Any]]:
    yield {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": str(work / "state")}}


_STARTERS: Mapping[Provider, Callable[[Path], AbstractContextManager[Mapping[str, Any]]]] = {
    Provider.SQLITE: _sqlite,
    Provider.REDIS: redis_server,
    Provider.REDIS_CLUSTER: redis_cluster,
    Provider.HBASE: hbase,
}
