"""A `RedisStreamsSpout` on a Redis Cluster: streams on all servers, a slot that moves, a master that is killed."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from anchorbolt.spouts import RedisStreamsSpout
from tests.conftest import StartRedisCluster
from tests.servers.redis_cluster import QUICK_TO_FAIL_OVER, RedisCluster
from tests.servers.redis_server import DURABLE
from tests.spouts.collected import running
from tests.spouts.redis_streams import KEY, add, add_many, pending


def client_of(cluster: RedisCluster) -> Any:
    server = cluster.current_masters()[0]
    return redis.RedisCluster(host=server.host, port=server.port)


@pytest.fixture
def client(empty_redis_cluster: RedisCluster) -> Iterator[Any]:
    with client_of(empty_redis_cluster) as client:
        yield client


def test_streams_on_all_servers_are_read_acked_and_emitted_again(
    empty_redis_cluster: RedisCluster, client: Any
) -> None:
    keys = [f"stream-{number}" for number in range(8)]
    assert len({empty_redis_cluster.master_of(key).port for key in keys}) == 3
    expected = {f"{key}:{id}" for key in keys for id in add(client, "a", "b", "c", key=key)}
    spout = RedisStreamsSpout(keys, ["text"], nodes=empty_redis_cluster.nodes)
    with running(spout, 3, 5) as task:
        found = [id for id, _ in task.read(24)]
        assert set(found) == expected
        task.ack(*found[:10])
    with running(spout, 0, 2) as first, running(spout, 1, 2) as second:
        shared = []
        for task in (first, second):
            own = [id for id, _ in task.read_times(200)]
            task.fail(*own[:3])
            assert {id for id, _ in task.read_times(200)} == set(own[:3])
            shared += own
        assert sorted(shared) == sorted(found[10:])
    with running(spout) as task:
        found = [id for id, _ in task.read(14)]
        task.ack(*found)
        assert [pending(client, key) for key in keys] == [{}] * 8


def test_no_read_costs_a_question_where_its_key_is(empty_redis_cluster: RedisCluster, client: Any) -> None:
    ids = add_many(client, map(str, range(10)))
    masters = empty_redis_cluster.current_masters()
    for master in masters:
        with master.client() as each:
            each.config_resetstat()
    with running(RedisStreamsSpout(KEY, ["text"], nodes=empty_redis_cluster.nodes, batch=2)) as task:
        assert [id for id, _ in task.read(10)] == ids
    called: set[str] = set()
    for master in masters:
        with master.client() as each:
            called |= set(each.info("commandstats"))
    assert "cmdstat_xreadgroup" in called
    assert not [name for name in called if "getkeys" in name]


def test_a_stream_whose_slot_moves_is_read_on(empty_redis_cluster: RedisCluster, client: Any) -> None:
    cluster = empty_redis_cluster
    slot, source = cluster.slot_of(KEY), cluster.master_of(KEY)
    target = next(server for server in cluster.current_masters() if server is not source)
    ids = add_many(client, map(str, range(10)))
    with running(RedisStreamsSpout(KEY, ["text"], nodes=cluster.nodes, batch=2)) as task:
        try:
            assert len(task.read_times(2)) == 4
            cluster.begin_move(slot, source, target)
            assert len(task.read_times(1)) == 2
            cluster.move_keys(slot, source, target)
            assert len(task.read(2)) == 2
            task.ack(*ids[:5])
            task.fail(ids[5])
            assert [id for id, _ in task.read(1)] == [ids[5]]
            cluster.end_move(slot, target)
            assert [id for id, _ in task.read(2)] == ids[8:]
            task.ack(*ids[5:])
            assert pending(client) == {}
        finally:
            cluster.bring_back(slot, source, target)


def test_a_master_that_is_killed_is_waited_for_while_the_others_are_read(
    start_redis_cluster: StartRedisCluster,
) -> None:
    cluster = start_redis_cluster(**DURABLE, **QUICK_TO_FAIL_OVER, cluster_require_full_coverage="no")
    keys = ["a", "b", "c", "d", "e", "f"]
    with client_of(cluster) as client:
        expected = {f"{key}:{id}" for key in keys for id in add(client, "before", key=key)}
        spout = RedisStreamsSpout(keys, ["text"], nodes=cluster.nodes, timeout_ms=500)
        with running(spout) as task:
            assert {id for id, _ in task.read(6)} == expected
            killed = cluster.master_of("a")
            alive = next(key for key in keys if cluster.master_of(key) is not killed)
            cluster.wait_until_in_step()
            killed.kill()
            added = add(client, "after", key=alive)
            assert [id for id, _ in task.read(1)] == [f"{alive}:{added[0]}"]
            cluster.wait_until_served()
            task.ack(*expected, f"{alive}:{added[0]}")
            killed.start()
            cluster.wait_until_in_step()
    with client_of(cluster) as client:
        assert [pending(client, key) for key in keys] == [{}] * 6
