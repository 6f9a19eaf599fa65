"""The stores of the campaign: each provider's servers, started for one run, as the provider's configuration."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import typer

from tests.crash.stores import config_of, config_of_cluster, config_of_hbase
from tests.support.hbase_server import HBaseProgram, HBaseServer
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import DURABLE, RedisServer

__all__ = ["PROVIDERS", "store_of"]

Store = Callable[[Path], AbstractContextManager[Mapping[str, Any]]]


def store_of(provider: str, home: Path) -> AbstractContextManager[Mapping[str, Any]]:
    """Start what a provider needs, below `home`, for as long as the context lasts."""
    return _STORES[provider](home)


@contextmanager
def _sqlite(home: Path) -> Iterator[Mapping[str, Any]]:
    yield {"directory": str(home / "run" / "state")}


@contextmanager
def _redis(home: Path) -> Iterator[Mapping[str, Any]]:
    server = RedisServer(_redis_program(), home / "redis", options=DURABLE)
    server.start()
    try:
        yield config_of(server)
    finally:
        server.stop()


@contextmanager
def _redis_cluster(home: Path) -> Iterator[Mapping[str, Any]]:
    cluster = RedisCluster(_redis_program(), home / "redis-cluster", options=DURABLE)
    cluster.start()
    try:
        yield config_of_cluster(cluster)
    finally:
        cluster.stop()


@contextmanager
def _hbase(home: Path) -> Iterator[Mapping[str, Any]]:
    try:
        program = HBaseProgram.installed()
    except LookupError as missing:
        raise typer.BadParameter(str(missing)) from missing
    server = HBaseServer(program, home / "hbase")
    try:
        server.start()
        yield config_of_hbase(server)
    finally:
        server.kill()


_STORES: dict[str, Store] = {
    "sqlite": _sqlite,
    "redis": _redis,
    "redis-cluster": _redis_cluster,
    "hbase": _hbase,
}
PROVIDERS = tuple(_STORES)


def _redis_program() -> str:
    program = shutil.which("redis-server")
    if program is None:
        raise typer.BadParameter("no redis-server is on the PATH; `make set-up` says how to install one")
    return program
