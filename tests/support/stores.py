"""A store of each provider, and the provider's configuration for it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.servers.hbase_server import HBaseProgram, HBaseServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import DURABLE, RedisServer

PROVIDERS = ("sqlite", "redis", "redis-cluster", "hbase")

WORKERS = int(os.environ.get("ANCHORBOLT_TEST_WORKERS", "0"))
"""How many workers that stay the runs of all tests have on Spark: `make test-workers` sets it."""

SPOUTS_IN = os.environ.get("ANCHORBOLT_TEST_SPOUTS", "driver")
"""Whether these runs have their rich spouts in the `workers`."""

Store = Path | RedisServer | RedisCluster | HBaseServer
"""A server, or SQLite's directory."""


@contextmanager
def store_of(provider: str, home: Path) -> Iterator[Store]:
    """Start what a provider needs, below `home`, for as long as the context lasts. What it acknowledges survives kills.

    Raises:
        LookupError: The program is not on this machine.
    """
    if provider == "sqlite":
        yield home / "run" / "state"
        return
    server: RedisServer | RedisCluster | HBaseServer
    if provider == "hbase":
        server = HBaseServer(HBaseProgram.installed(), home / "hbase")
    else:
        kind = RedisServer if provider == "redis" else RedisCluster
        server = kind(redis_program(), home / provider, **DURABLE)
    with closing(server):
        server.start()
        yield server


def redis_program() -> str:
    program = shutil.which("redis-server")
    if program is None:
        raise LookupError("there is no redis-server on the PATH; `make set-up` says how to install one")
    return program


def settings_of(store: Store) -> dict[str, Any]:
    provider, config = _provider_of(store)
    return {"topology.state.provider": provider, "topology.state.provider.config": config, **in_workers()}


def in_workers() -> dict[str, Any]:
    """Return the setting by which runs on Spark keep their workers, if these tests are to run so; `WORKERS` says it."""
    return {"topology.workers": WORKERS, "topology.spouts.in": SPOUTS_IN} if WORKERS else {}


def config_of(store: Store) -> dict[str, Any]:
    return _provider_of(store)[1]


def _provider_of(store: Store) -> tuple[str, dict[str, Any]]:
    if isinstance(store, RedisServer):
        return "redis", {"jedisPoolConfig": {"host": store.host, "port": store.port}}
    if isinstance(store, RedisCluster):
        return "redis-cluster", {"jedisClusterConfig": {"nodes": store.nodes}}
    if isinstance(store, Path):
        return "sqlite", {"directory": str(store)}
    return "hbase", {
        "tableName": "anchorbolt",
        "columnFamily": "state",
        "createTable": True,
        "thriftConfig": {
            "host": store.host,
            "port": store.port,
            "timeout": 20_000,  # ms, time enough for a busy machine
            "transport": store.transport,
            "protocol": store.protocol,
        },
    }
