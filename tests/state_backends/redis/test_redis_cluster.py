"""Redis Cluster: where the keys lie, slots that are moved under the steps' feet, and who may connect."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from anchorbolt.config import Secret
from anchorbolt.config.providers import TlsSettings
from anchorbolt.errors import ConfigError, StaleAttempt, StateUnavailable
from anchorbolt.state_backends.contract import Fence, ReadPosition, StateStorage
from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries, stage, staged
from tests.conftest import StartRedisCluster
from tests.servers.redis_cluster import RedisCluster, each_key
from tests.servers.redis_server import RedisServer, RedisUser
from tests.servers.server_process import free_port
from tests.servers.slow_servers import refusal_of
from tests.state_backends.redis.test_redis_servers import NS, PASSWORD, RULES, check_refusal, opened, work
from tests.support.certificates import Certificates

ROOT = f"{{{NS}}}"
Moving = tuple[int, RedisServer, RedisServer]
MANY = [(b"%d" % number, b"v" * 50) for number in range(5_000)]


@pytest.fixture
def storage(redis_cluster_provider: RedisClusterStateProvider) -> Iterator[StateStorage]:
    with opened(redis_cluster_provider) as storage:
        yield storage


@pytest.fixture
def moving(redis_cluster: RedisCluster) -> Iterator[Moving]:
    """The slot of the namespace, the server that holds it, and another one. It is brought back after the test."""
    slot, source = redis_cluster.slot_of(ROOT), redis_cluster.master_of(ROOT)
    target = next(server for server in redis_cluster.current_masters() if server is not source)
    yield slot, source, target
    redis_cluster.bring_back(slot, source, target)


def test_all_keys_of_a_namespace_lie_on_one_server(storage: StateStorage, redis_cluster: RedisCluster) -> None:
    committed(storage, MANY)
    attempt, _ = stage(storage, [(b"a", b"1")], txid=1, base=0)
    names = {key.decode() for key in each_key(redis_cluster)}
    suffixes = ("", "$txid", "$fence", "$attempts", f"$prepare${attempt}")
    assert names == {ROOT + suffix for suffix in suffixes}
    assert len({redis_cluster.slot_of(name) for name in names}) == 1


def test_namespaces_are_spread_and_found_on_all_servers(
    redis_cluster_provider: RedisClusterStateProvider, redis_cluster: RedisCluster
) -> None:
    names = [f"words:count-{number}" for number in range(30)]
    for name in names:
        with closing(redis_cluster_provider.open(name)) as storage:
            storage.claim()
    assert len({redis_cluster.master_of(f"{{{name}}}").port for name in names}) == 3
    assert sorted(redis_cluster_provider.namespaces("words:")) == sorted(names)
    assert list(redis_cluster_provider.namespaces("w?rds")) == []


STEPS: dict[str, Callable[[StateStorage, str], object]] = {
    "head": lambda storage, _: storage.head(),
    "claim": lambda storage, _: storage.claim(),
    "raise the fence": lambda storage, _: storage.raise_fence(Fence(5, 0)),
    "stage": lambda storage, _: stage(storage, [(b"a", b"3")], fence=Fence(5, 0), txid=1, base=0),
    "read what is staged": lambda storage, attempt: storage.get_many([b"0"], attempt),
    "commit": lambda storage, attempt: storage.commit(Fence(5, 0), 1, attempt),
    "roll back": lambda storage, _: storage.rollback(Fence(5, 0)),
    "write": lambda storage, _: storage.write(Fence(5, 0), {b"w": b"1"}, CODEC),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_runs_as_a_whole_or_not_at_all_while_its_slot_is_moved(
    storage: StateStorage, redis_cluster: RedisCluster, moving: Moving, step: str
) -> None:
    slot, source, target = moving
    committed(storage, MANY)
    attempt = staged(storage, [(b"0", b"new"), (b"1", None)], txid=1, base=0)
    kept = _dump(redis_cluster)
    redis_cluster.begin_move(slot, source, target)
    # Key by key: five are there, and after each of them some are here and some there.
    with opened(RedisClusterStateProvider(redis_cluster.nodes, timeout_ms=200)) as impatient:
        for _ in range(5):
            assert "moving the slot" in str(refusal_of(lambda: STEPS[step](impatient, attempt)))
            assert _dump(redis_cluster) == kept
            assert redis_cluster.move_keys(slot, source, target, 1) == 1
    assert redis_cluster.move_keys(slot, source, target) == 0
    redis_cluster.end_move(slot, target)
    STEPS[step](storage, attempt)
    head = storage.head()
    if step == "commit":
        assert (head.committed, head.winner) == (1, attempt)
        assert storage.get_many([b"0", b"1", b"2"]) == [b"new", None, b"v" * 50]
    else:
        assert head.committed == 0
        assert entries(storage) == dict(MANY) | ({b"w": b"1"} if step == "write" else {})


def test_a_half_applied_commit_is_finished_while_its_slot_is_moved_or_afterwards(
    storage: StateStorage, redis_cluster: RedisCluster, moving: Moving
) -> None:
    slot, source, target = moving
    new = [(b"%d" % number, b"new" if number % 3 else None) for number in range(20_000)]
    expected = {key: value for key, value in new if value is not None}
    committed(storage, MANY)
    attempt = staged(storage, *(new[start : start + 1_000] for start in range(0, 20_000, 1_000)), txid=1, base=0)
    client = vars(storage)["_client"]
    run, left = client.run, [2]

    def run_or_move(*arguments: Any) -> Any:
        if not left[0]:
            redis_cluster.begin_move(slot, source, target)
            redis_cluster.move_keys(slot, source, target, 2)
        left[0] -= 1
        return run(*arguments)

    client.run = run_or_move
    with pytest.raises(StateUnavailable, match="moving the slot"):
        storage.commit(FIRST, 1, attempt)
    del client.run
    # Not all keys that exist are in one place, and nothing is guessed.
    with pytest.raises(StateUnavailable):
        storage.head()
    while redis_cluster.move_keys(slot, source, target):
        pass
    # All five keys are on the new server, and the slot is not its own yet.
    storage.commit(FIRST, 1, attempt)
    redis_cluster.end_move(slot, target)
    storage.commit(FIRST, 1, attempt)
    assert entries(storage) == expected


def test_committed_data_is_read_while_its_slot_is_moved(
    storage: StateStorage, redis_cluster: RedisCluster, moving: Moving
) -> None:
    slot, source, target = moving
    committed(storage, MANY)
    redis_cluster.begin_move(slot, source, target)
    assert entries(storage) == dict(MANY)
    for _ in range(4):
        assert storage.get_many([b"7", b"none"]) == [b"v" * 50, None]
        redis_cluster.move_keys(slot, source, target, 1)
    redis_cluster.end_move(slot, target)
    assert entries(storage) == dict(MANY)


def test_a_read_that_says_where_it_stands_follows_its_slot(
    storage: StateStorage, redis_cluster: RedisCluster, moving: Moving
) -> None:
    slot, source, target = moving
    at = ReadPosition(0, committed(storage, MANY))
    redis_cluster.begin_move(slot, source, target)
    assert storage.get_many([b"7", b"none"], None, at) == [b"v" * 50, None]
    redis_cluster.move_keys(slot, source, target, 1)
    with pytest.raises(StateUnavailable, match="moving the slot"):
        storage.get_many([b"7", b"none"], None, at)
    redis_cluster.move_keys(slot, source, target)
    redis_cluster.end_move(slot, target)
    assert storage.get_many([b"7", b"none"], None, at) == [b"v" * 50, None]  # MOVED
    with pytest.raises(StaleAttempt):
        storage.get_many([b"7"], None, ReadPosition())


def test_a_scan_that_its_slot_is_moved_away_from_fails_and_leaves_nothing_out(
    storage: StateStorage, redis_cluster: RedisCluster, moving: Moving
) -> None:
    slot, source, target = moving
    committed(storage, MANY)
    pages = storage.scan(page_size=100)
    next(pages)
    redis_cluster.move(slot, source, target)
    with pytest.raises(StateUnavailable):
        list(pages)
    assert entries(storage) == dict(MANY)


def test_a_slot_may_be_moved_to_a_server_that_has_just_joined(start_redis_cluster: StartRedisCluster) -> None:
    own_cluster = start_redis_cluster()
    source, slot = own_cluster.master_of(ROOT), own_cluster.slot_of(ROOT)
    with opened(RedisClusterStateProvider(own_cluster.nodes)) as storage:
        committed(storage, MANY)
        target = own_cluster.add_master()
        own_cluster.begin_move(slot, source, target)
        while own_cluster.move_keys(slot, source, target):
            pass
        assert storage.get_many([b"7"]) == [b"v" * 50]  # ASK, to a server that nobody has told of
        own_cluster.end_move(slot, target)
        committed(storage, [(b"7", b"new")], txid=1, base=0)  # by scripts that this server does not have yet
        assert storage.get_many([b"7"]) == [b"new"]


def test_a_password_and_tls_open_the_cluster(
    start_redis_cluster: StartRedisCluster, certificates: Certificates
) -> None:
    cluster = start_redis_cluster(password=PASSWORD, tls=True, tls_auth_clients="yes")
    tls = TlsSettings(**certificates.of_client())
    provider = RedisClusterStateProvider(cluster.nodes[:1], password=Secret(PASSWORD), tls=tls)
    with opened(pickle.loads(pickle.dumps(provider))) as storage:  # noqa: S301
        work(storage)
    wrong = RedisClusterStateProvider(cluster.nodes, password=Secret(PASSWORD + "!"), tls=tls)
    check_refusal(wrong, ConfigError, "username and password")
    check_refusal(RedisClusterStateProvider(cluster.nodes, tls=TlsSettings()), StateUnavailable, "certificate")


def test_a_user_with_the_documented_rights_can_do_everything(start_redis_cluster: StartRedisCluster) -> None:
    rules = RULES.replace("~words:*", "~{words:*") + " +cluster|slots +command +asking"
    cluster = start_redis_cluster(users={"anchor": RedisUser("pw", rules), "none": RedisUser("pw", "~* -@all")})
    provider = RedisClusterStateProvider(cluster.nodes, username="anchor", password=Secret("pw"))
    with opened(provider) as storage:
        work(storage)
    assert list(provider.namespaces("words:")) == [NS]
    other = RedisClusterStateProvider(cluster.nodes, username="none", password=Secret("pw"))
    check_refusal(other, ConfigError, "'none'", "CLUSTER SLOTS")


def test_a_server_of_no_cluster_is_a_configuration_error(redis_database: RedisServer) -> None:
    node = f"{redis_database.host}:{redis_database.port}"
    check_refusal(RedisClusterStateProvider([node]), ConfigError, "provider to redis")


@pytest.mark.parametrize("namespace", [NS, "words:count-1", "words:count-2"])
def test_a_node_of_a_cluster_is_no_server_by_itself(redis_cluster: RedisCluster, namespace: str) -> None:
    host, _, port = redis_cluster.nodes[0].rpartition(":")
    check_refusal(RedisStateProvider(host, int(port)), ConfigError, "provider to redis-cluster", namespace=namespace)


def test_a_master_that_would_evict_state_is_refused(start_redis_cluster: StartRedisCluster) -> None:
    cluster = start_redis_cluster(maxmemory="50mb", maxmemory_policy="allkeys-lru")
    check_refusal(RedisClusterStateProvider(cluster.nodes), ConfigError, "noeviction")


def test_a_cluster_that_does_not_run_is_named() -> None:
    check_refusal(RedisClusterStateProvider([f"127.0.0.1:{free_port()}"], timeout_ms=200), StateUnavailable)


@pytest.mark.parametrize("nodes", [[], ["host"], ["host:"], [":1"], ["host:0"], ["host:65536"], ["host:x"]])
def test_impossible_nodes_are_refused(nodes: list[str]) -> None:
    with pytest.raises(ConfigError, match="node"):
        RedisClusterStateProvider(nodes)


def _dump(cluster: RedisCluster) -> dict[bytes, object]:
    """All hashes, wherever they are."""
    found: dict[bytes, object] = {}
    for server in cluster.current_masters():
        with server.client() as client:
            for key in client.scan_iter():
                client.execute_command("ASKING")
                found[key] = client.hgetall(key)
    return found
