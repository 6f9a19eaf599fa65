"""A network that loses requests and replies at any step: each call ends in time, and repeated it has one effect."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TypeVar

import pytest

from anchorbolt.errors import StateUnavailable
from anchorbolt.state_backends.contract import Fence, ReadPosition, StateProvider, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.testing.conformance.base import CODEC, entries, new_attempt, new_namespace, stage_slice
from tests.conftest import StartRedisCluster
from tests.servers.hbase_server import HBaseServer
from tests.servers.redis_server import RedisServer
from tests.servers.tcp_proxy import Loss, TcpProxy
from tests.state_backends.hbase.providers import provider_of

pytestmark = pytest.mark.slow

Step = Callable[[StateStorage], object]
_T = TypeVar("_T")
# A round that follows a rollback has the next fence: a rollback that comes late must not reach it.
FIRST, SECOND = Fence(1, 1), Fence(1, 2)
WINNER, LOSER = new_attempt(), new_attempt()
OLD = [(b"%d" % number, b"old") for number in range(2_500)]
NEW = [(b"%d" % number, None if number % 3 == 0 else b"new") for number in range(1_000, 6_000)]


@pytest.fixture
def redis_by_proxies(redis_database: RedisServer) -> Iterator[tuple[StateProvider, list[TcpProxy]]]:
    with TcpProxy(redis_database.port) as proxy:
        yield RedisStateProvider(redis_database.host, proxy.port, timeout_ms=300), [proxy]


@pytest.fixture
def redis_cluster_by_proxies(start_redis_cluster: StartRedisCluster) -> Iterator[tuple[StateProvider, list[TcpProxy]]]:
    """Each server tells clients, and the other servers, the port of a proxy in front of it."""
    cluster = start_redis_cluster()
    with ExitStack() as stack:
        proxies = []
        for server in [*cluster.masters, *cluster.replicas]:
            proxies.append(stack.enter_context(TcpProxy(server.port)))
            with server.client() as client:
                client.config_set("cluster-announce-port", proxies[-1].port)
        nodes = [f"127.0.0.1:{proxy.port}" for proxy in proxies]
        provider = RedisClusterStateProvider(nodes, timeout_ms=300)
        cluster.wait_until_announced([proxy.port for proxy in proxies])
        yield provider, proxies


@pytest.fixture
def hbase_by_proxies(hbase_server: HBaseServer) -> Iterator[tuple[StateProvider, list[TcpProxy]]]:
    with TcpProxy(hbase_server.port, late_by_s=3.0) as proxy:
        yield provider_of(hbase_server, port=proxy.port, timeout_ms=2_000), [proxy]


def steps() -> dict[str, Step]:
    """All of two transactions, one call each, in their order."""

    def stage(
        attempt: str, txid: int, number: int, items: list[tuple[bytes, bytes | None]], fence: Fence = SECOND
    ) -> Step:
        return lambda storage: stage_slice(storage, attempt, number, dict(items), fence=fence, txid=txid, base=txid - 1)

    return {
        "raise the fence": lambda storage: storage.raise_fence(FIRST),
        "stage the first": stage(WINNER[::-1], 0, 0, list(OLD), FIRST),
        "commit the first": _sealed_and_committed,
        "stage a loser": stage(LOSER, 1, 0, [(b"loser", b"1")], FIRST),
        "roll back": lambda storage: storage.rollback(FIRST),
        "stage": stage(WINNER, 1, 0, NEW[:3_000]),
        "stage another slice": stage(WINNER, 1, 1, NEW[3_000:]),
        "read under the attempt": lambda storage: storage.get_many([b"1", b"5999"], WINNER),
        "seal": _sealed,
        "commit": lambda storage: storage.commit(SECOND, 1, WINNER),
        "read": lambda storage: storage.get_many([b"0", b"1000", b"1001"]),
        "read at the position": lambda storage: storage.get_many([b"0", b"1000"], None, ReadPosition(1, WINNER)),
        "write": lambda storage: storage.write(SECOND, {b"written": b"1"}, CODEC),
        "scan": entries,
        "scan at the position": lambda storage: entries(storage, at=ReadPosition(1, WINNER)),
    }


def _sealed(storage: StateStorage) -> None:
    # Repeating the last slice of an attempt returns what the attempt consists of so far.
    if storage.head().attempts[WINNER].seal is None:
        storage.seal(SECOND, WINNER, stage_slice(storage, WINNER, 1, dict(NEW[3_000:]), fence=SECOND, txid=1, base=0))


def _sealed_and_committed(storage: StateStorage) -> None:
    first = WINNER[::-1]
    head = storage.head()
    if head.committed != 0 and head.attempts[first].seal is None:
        storage.seal(FIRST, first, stage_slice(storage, first, 0, dict(OLD), fence=FIRST))
    storage.commit(FIRST, 0, first)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loss", Loss, ids=lambda loss: loss.name.lower())
@pytest.mark.parametrize(
    "store", ["redis", *(pytest.param(store, marks=pytest.mark.thorough) for store in ("redis_cluster", "hbase"))]
)
def test_what_is_lost_on_the_way_is_repeated_and_has_one_effect(
    request: pytest.FixtureRequest, store: str, loss: Loss
) -> None:
    provider, proxies = request.getfixturevalue(f"{store}_by_proxies")
    longest = 15 * provider.timeout_ms / 1000 + 2
    # Redis knows all scripts afterwards: what is lost is a step then, and not the reply that a script is unknown.
    with closing(provider.open(new_namespace())) as storage:
        for step in steps().values():
            until_available(storage, step, longest)
    expected = MemoryStateProvider().open("reference-0")
    with closing(provider.open(new_namespace())) as storage:
        for name, step in steps().items():
            struck = sum(proxy.struck for proxy in proxies)
            for proxy in proxies:
                proxy.arm(loss)
            answer = until_available(storage, step, longest)
            wanted_answer = step(expected)
            # Repeated, there is nothing left to roll back.
            assert answer == wanted_answer or (name == "roll back" and answer == 0), name
            assert sum(proxy.struck for proxy in proxies) > struck, name
            head, wanted = until_available(storage, lambda store: store.head(), longest), expected.head()
            assert (head.committed, head.winner, head.fence) == (wanted.committed, wanted.winner, wanted.fence), name
            # A loser that was rolled back may be staged once more by a request that was on the way for long.
            unlike = dict(head.attempts.items() ^ wanted.attempts.items())
            assert unlike.keys() <= ({LOSER} if loss is Loss.LATE else set()), name
        assert until_available(storage, entries, longest) == entries(expected)


def until_available(storage: StateStorage, step: Callable[[StateStorage], _T], longest_s: float) -> _T:
    """Repeat a step until it is answered, as the engine does; no call may last longer than it should."""
    for _ in range(10):
        started = time.monotonic()
        try:
            return step(storage)
        except StateUnavailable:
            continue
        finally:
            assert time.monotonic() - started < longest_s
    raise AssertionError("never available again")
