"""Stores of every kind, and topologies that ran on them."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.serialization.codecs import MsgpackCodec, MsgpackKeyCodec
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.hbase.provider import HBaseStateProvider
from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage
from anchorbolt.testing.conformance.base import Items, committed, new_namespace
from tests.engine.jobs import word_count
from tests.state_backends.conftest import (  # noqa: F401 - fixtures
    hbase_provider,
    memory_provider,
    redis_cluster_provider,
    redis_provider,
    sqlite_provider,
)

ALL = ["memory", "sqlite", "redis", "redis_cluster", pytest.param("hbase", marks=pytest.mark.slow)]
MSGPACK = Codecs(MsgpackKeyCodec(), MsgpackCodec())
HEADER = "keys msgpack/2, values msgpack/1"
TIMEOUT_S = 60

RunWords = Callable[..., RunHandle]
StartWords = Callable[..., RunHandle]


class Killed(BaseException):
    """Not caught by anything that handles a failure, as a kill is not."""


def raise_killed(*_: Any) -> None:
    raise Killed


class KilledAt:
    """Ends the process's work before or after the nth call of a storage that writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
        self.left = number
        for method in ("claim", "raise_fence", "stage", "seal", "commit", "write"):
            monkeypatch.setattr(SqliteStateStorage, method, self._wrapped(getattr(SqliteStateStorage, method), after))

    def _wrapped(self, call: Any, after: bool) -> Any:
        def wrapped(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not after:
                raise Killed
            result = call(*arguments)
            if self.left == 0:
                raise Killed
            return result

        return wrapped


@contextmanager
def killed_at(point: FaultPoint, txid: int) -> Iterator[None]:
    """End the work in the block as by a kill when it reaches a point."""

    def strike(place: PointReached) -> None:
        if (place.point, place.txid) == (point, txid):
            raise Killed

    before = observe(strike)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        observe(before)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> StateProvider:
    """The provider that the test is parametrized with, indirectly."""
    provider: StateProvider = request.getfixturevalue(f"{request.param}_provider")
    return provider


@pytest.fixture
def source(sqlite_provider: SqliteStateProvider) -> SqliteStateProvider:  # noqa: F811
    return sqlite_provider


@pytest.fixture
def target(tmp_path: Path) -> SqliteStateProvider:
    return SqliteStateProvider(str(tmp_path / "target"))


@pytest.fixture
def name() -> str:
    """A topology's name that nobody has used."""
    return f"words-{uuid.uuid4().hex[:8]}"


def conf_of(provider: StateProvider) -> dict[str, Any]:
    """Return the configuration that names a provider."""
    config: dict[str, Any]
    if isinstance(provider, SqliteStateProvider):
        kind, config = "sqlite", {"directory": provider.directory}
    elif isinstance(provider, RedisStateProvider):
        kind, config = "redis", {"jedisPoolConfig": {"host": provider.host, "port": provider.port}}
    elif isinstance(provider, RedisClusterStateProvider):
        kind, config = "redis-cluster", {"jedisClusterConfig": {"nodes": list(provider.nodes)}}
    else:
        assert isinstance(provider, HBaseStateProvider)
        thrift = {"host": provider.host, "port": provider.port, "timeout": provider.timeout_ms}
        kind = "hbase"
        config = {
            "tableName": provider.table,
            "columnFamily": provider.column_family,
            "createTable": True,
            "thriftConfig": thrift,
        }
    return {"topology.state.provider": kind, "topology.state.provider.config": config}


def put(provider: StateProvider, items: Items, codec: str = HEADER) -> str:
    """Commit these entries as txid 0 of a new namespace; return its name."""
    namespace = new_namespace()
    with closing(provider.open(namespace)) as storage:
        committed(storage, items, codec=codec)
    return namespace


@pytest.fixture
def start_words(tmp_path: Path, name: str) -> StartWords:
    """Start the word count over a store; the checkpoint location stays the same."""

    def start(provider: StateProvider, spout: FeederSpout, *, until_empty: bool = False, **conf: Any) -> RunHandle:
        given = {"topology.checkpoint.location": str(tmp_path / "checkpoint"), **conf_of(provider), **conf}
        return LocalCluster().submit(word_count(spout, name=name), given, until_empty=until_empty)

    return start


@pytest.fixture
def run_words(start_words: StartWords) -> RunWords:
    """Run the word count over a store until its sentences are counted."""

    def run(provider: StateProvider, *sentences: str, **conf: Any) -> RunHandle:
        spout = FeederSpout(["sentence"], [[(sentence,)] for sentence in sentences])
        handle = start_words(provider, spout, until_empty=True, **conf)
        assert handle.await_termination(TIMEOUT_S)
        return handle

    return run
