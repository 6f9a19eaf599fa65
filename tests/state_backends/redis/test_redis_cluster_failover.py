"""Redis Cluster: masters that are lost, replicas that take over, and what they never got."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from anchorbolt.errors import StateRegressed, StateUnavailable
from anchorbolt.state_backends.contract import ReadPosition, StateStorage
from anchorbolt.state_backends.redis import RedisClusterStateProvider
from anchorbolt.testing.conformance.base import FIRST, committed, entries, staged
from tests.conftest import StartRedisCluster
from tests.servers.redis_cluster import QUICK_TO_FAIL_OVER, RedisCluster, wait_until
from tests.servers.slow_servers import until_available
from tests.state_backends.redis.test_redis_cluster import MANY, ROOT
from tests.state_backends.redis.test_redis_servers import opened


@pytest.fixture
def own_cluster(start_redis_cluster: StartRedisCluster) -> RedisCluster:
    return start_redis_cluster(**QUICK_TO_FAIL_OVER)


@pytest.fixture
def storage(own_cluster: RedisCluster) -> Iterator[StateStorage]:
    with opened(RedisClusterStateProvider(own_cluster.nodes)) as storage:
        yield storage


def test_a_scan_that_a_replica_took_over_from_fails(storage: StateStorage, own_cluster: RedisCluster) -> None:
    committed(storage, MANY)
    own_cluster.wait_until_in_step()
    pages = storage.scan(page_size=100)
    next(pages)
    own_cluster.promote(own_cluster.replica_of(own_cluster.master_of(ROOT)))
    with pytest.raises(StateUnavailable):
        list(pages)
    assert entries(storage) == dict(MANY)


def test_a_master_is_killed_and_its_replica_takes_over_with_everything(
    storage: StateStorage, own_cluster: RedisCluster
) -> None:
    at = ReadPosition(0, committed(storage, MANY))
    attempt = staged(storage, [(b"7", b"new")], txid=1, base=0)
    before = storage.head()
    own_cluster.wait_until_in_step()
    with opened(RedisClusterStateProvider(own_cluster.nodes)) as reader:
        assert reader.get_many([b"7"], None, at) == [b"v" * 50]
        own_cluster.master_of(ROOT).kill()
        assert until_available(lambda: reader.get_many([b"7"], None, at)) == [b"v" * 50]
    assert until_available(storage.head) == before
    storage.commit(FIRST, 1, attempt)
    assert storage.get_many([b"7"]) == [b"new"]


def test_what_a_replica_never_got_is_missed_and_not_guessed(storage: StateStorage, own_cluster: RedisCluster) -> None:
    """The replica is cut off from its master, which takes an attempt and is lost."""
    winner = committed(storage, MANY)
    own_cluster.wait_until_in_step()
    master = own_cluster.master_of(ROOT)
    own_cluster.cut_off(own_cluster.replica_of(master))
    attempt = staged(storage, [(b"7", b"new")], txid=1, base=0)
    master.kill()
    own_cluster.resume()
    head = until_available(storage.head)
    assert (head.committed, head.winner, head.attempts) == (0, winner, {})
    with pytest.raises(StateRegressed):
        storage.commit(FIRST, 1, attempt)
    assert entries(storage) == dict(MANY)


def test_a_slot_without_a_server_is_waited_for_within_the_timeout(own_cluster: RedisCluster) -> None:
    with _impatient(own_cluster) as storage:
        master = own_cluster.master_of(ROOT)
        own_cluster.replica_of(master).kill()
        master.kill()
        started = time.monotonic()
        with pytest.raises(StateUnavailable) as error:
            storage.head()
        assert time.monotonic() - started < 5
        assert own_cluster.nodes[0] in str(error.value)
        wait_until(lambda: "fail" in _info(own_cluster), "the cluster to notice")
        with pytest.raises(StateUnavailable, match=rf"no server serves|{master.port}"):
            storage.head()


def test_servers_that_hang_cost_a_bounded_time(own_cluster: RedisCluster) -> None:
    with _impatient(own_cluster) as storage:
        own_cluster.pause()
        started = time.monotonic()
        with pytest.raises(StateUnavailable):
            storage.head()
        assert time.monotonic() - started < 2 * 6 * 0.5 + 1  # each of six servers is asked, twice at most
        own_cluster.resume()
        assert until_available(storage.head).committed == 0


@contextmanager
def _impatient(cluster: RedisCluster) -> Iterator[StateStorage]:
    """A namespace with entries, whose servers have half a second for an answer and have given the first."""
    with opened(RedisClusterStateProvider(cluster.nodes)) as patient:
        committed(patient, MANY)
    with opened(RedisClusterStateProvider(cluster.nodes, timeout_ms=500)) as storage:
        until_available(storage.head)
        yield storage


def _info(cluster: RedisCluster) -> str:
    server = next(server for server in cluster.masters if server.is_running)
    with server.client() as client:
        return str(client.execute_command("CLUSTER INFO"))
