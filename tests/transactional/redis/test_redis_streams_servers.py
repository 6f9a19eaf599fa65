"""The transactional spouts over Redis streams: logins, TLS, a Redis that is away, and streams on a Redis Cluster."""

import logging
from contextlib import closing
from typing import Any

import cloudpickle
import pytest
import redis

from anchorbolt.config import Secret
from anchorbolt.errors import ConfigError, SourceUnavailable
from anchorbolt.transactional import OpaqueRedisTransactionalSpout, RedisTransactionalSpout
from tests.conftest import StartRedis, StartRedisCluster
from tests.servers.redis_cluster import QUICK_TO_FAIL_OVER, RedisCluster
from tests.servers.redis_server import DURABLE, RedisUser
from tests.servers.server_process import free_port
from tests.spouts.redis_streams import add, add_many
from tests.support.certificates import Certificates
from tests.transactional.redis.redis_batches import RedisSpout, place_of, running

KINDS = (RedisTransactionalSpout, OpaqueRedisTransactionalSpout)
PASSWORD = "correct-horse-battery"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given_as", ["password", "secret", "variable", "file"])
def test_the_password_is_in_the_pickle_and_shown_nowhere(
    kind: type[RedisSpout],
    given_as: str,
    start_redis: StartRedis,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = start_redis(users={"spout": RedisUser(PASSWORD, "~a -@all +xrange +xinfo")}, **DURABLE)
    with server.client() as client:
        add(client, "x", key="a")
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("SPOUT_PASSWORD", PASSWORD)
    logins: dict[str, dict[str, Any]] = {
        "password": {"password": PASSWORD},
        "secret": {"password": Secret(PASSWORD)},
        "variable": {"password_env": "SPOUT_PASSWORD"},
        "file": {"password_file": str(file)},
    }
    caplog.set_level(logging.DEBUG, "anchorbolt")
    spout = kind("a", ["text"], username="spout", timeout_ms=100, **place_of(server), **logins[given_as])
    # An executor has neither the variable nor the file.
    monkeypatch.delenv("SPOUT_PASSWORD")
    file.unlink()
    with running(spout) as run:
        assert run.is_ready()
        assert run.new_batch() == {0: ["x"]}
        assert not run.is_ready()
        server.restart()
        assert not run.is_ready()
        assert run.new_batch() == {}
        shown = [repr(each) + repr(vars(each)) for each in (spout, run.coordinator, run.emitter)]
    assert PASSWORD not in "".join(shown) + caplog.text
    assert PASSWORD.encode() in cloudpickle.dumps(spout)


@pytest.mark.parametrize("kind", KINDS)
def test_a_login_that_is_refused_is_an_error_without_the_password(
    kind: type[RedisSpout], start_redis: StartRedis
) -> None:
    server = start_redis(users={"spout": RedisUser("another-password")})
    spout = kind("a", ["text"], username="spout", password=PASSWORD, **place_of(server))
    with running(spout) as run:
        for call in (run.is_ready, run.try_batch):
            with pytest.raises(ConfigError) as caught:
                call()
            assert PASSWORD.encode() not in cloudpickle.dumps(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_tls_is_used_where_it_is_asked_for(
    kind: type[RedisSpout], start_redis: StartRedis, certificates: Certificates
) -> None:
    server = start_redis(tls=True)
    spout = kind("a", ["text"], tls={"ca": str(certificates.authority)}, **place_of(server))
    with closing(server.client()) as client, running(spout) as run:
        add(client, "x", key="a")
        assert run.is_ready()
        assert run.new_batch() == {0: ["x"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_redis_that_does_not_come_is_a_source_that_is_not_available(kind: type[RedisSpout]) -> None:
    spout = kind("a", ["text"], port=free_port(), timeout_ms=100)
    with running(spout, {"topology.message.timeout.secs": 1}) as run:
        for call in (run.is_ready, run.try_batch):
            with pytest.raises(SourceUnavailable):
                call()


def client_of(cluster: RedisCluster) -> Any:
    server = cluster.current_masters()[0]
    return redis.RedisCluster(host=server.host, port=server.port)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_on_all_servers_of_a_cluster_are_read(
    kind: type[RedisSpout], empty_redis_cluster: RedisCluster
) -> None:
    cluster = empty_redis_cluster
    keys = [f"stream-{number}" for number in range(8)]
    assert len({cluster.master_of(key).port for key in keys}) == 3
    with client_of(cluster) as client, running(kind([*keys, "never"], ["text"], take=2, nodes=cluster.nodes)) as run:
        assert not run.is_ready()
        for key in keys:
            add_many(client, [f"{key}-{number}" for number in range(3)], key=key)
        assert run.is_ready()
        emitted = run.new_batch()
        assert emitted == {partition: [f"{key}-0", f"{key}-1"] for partition, key in enumerate(keys)}
        if kind is RedisTransactionalSpout:
            assert {partition: run.again(partition, run.metadata[partition]) for partition in emitted} == emitted
        assert run.new_batch() == {partition: [f"{key}-2"] for partition, key in enumerate(keys)}
        assert not run.is_ready()
        add(client, "last", key=keys[5])
        assert run.is_ready()
        assert run.new_batch() == {5: ["last"]}


def test_one_round_trip_to_each_server_tells_whether_a_batch_is_ready(empty_redis_cluster: RedisCluster) -> None:
    cluster = empty_redis_cluster
    keys = [f"stream-{number}" for number in range(30)]
    masters = [cluster.master_of(key) for key in keys]
    with client_of(cluster) as client, running(RedisTransactionalSpout(keys, ["text"], nodes=cluster.nodes)) as run:
        for key in keys:
            add(client, "x", key=key)
        run.new_batch()
        assert not run.is_ready()
        for master in set(masters):
            with master.client() as each:
                each.config_resetstat()
        assert not run.is_ready()
        for master in set(masters):
            with master.client() as each:
                calls: Any = each.info("commandstats")
            own = masters.count(master)
            assert (calls["cmdstat_xrange"]["calls"], calls["cmdstat_xinfo|stream"]["calls"]) == (own, own)
            assert not [name for name in calls if "command" in name.removeprefix("cmdstat_")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_whose_slot_moves_is_read_on(kind: type[RedisSpout], empty_redis_cluster: RedisCluster) -> None:
    cluster = empty_redis_cluster
    slot, source = cluster.slot_of("a"), cluster.master_of("a")
    target = next(server for server in cluster.current_masters() if server is not source)
    with client_of(cluster) as client, running(kind(["a", "b"], ["text"], take=1, nodes=cluster.nodes)) as run:
        add(client, *"uvwx", key="a")
        try:
            assert run.is_ready()
            assert run.new_batch() == {0: ["u"]}
            cluster.begin_move(slot, source, target)
            assert run.is_ready()
            assert run.new_batch() == {0: ["v"]}
            cluster.move_keys(slot, source, target)
            assert run.is_ready()
            assert run.new_batch() == {0: ["w"]}
            cluster.end_move(slot, target)
            assert run.is_ready()
            if kind is RedisTransactionalSpout:
                assert run.again(0, run.metadata[0]) == ["w"]
            assert run.new_batch() == {0: ["x"]}
            assert not run.is_ready()
        finally:
            cluster.bring_back(slot, source, target)


@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.thorough)])
def test_a_master_that_is_killed_is_waited_for(kind: type[RedisSpout], start_redis_cluster: StartRedisCluster) -> None:
    cluster = start_redis_cluster(**DURABLE, **QUICK_TO_FAIL_OVER, cluster_require_full_coverage="no")
    keys = ["a", "b", "c", "d", "e", "f"]
    with client_of(cluster) as client:
        for key in keys:
            add(client, "x", "y", key=key)
    # On a busy machine an election that comes to nothing costs Redis eight seconds, and several may.
    patient = {"topology.message.timeout.secs": 120}
    with running(kind(keys, ["text"], take=1, nodes=cluster.nodes, timeout_ms=500), patient) as run:
        assert run.is_ready()
        emitted = run.new_batch()
        assert emitted == {partition: ["x"] for partition in range(6)}
        cluster.wait_until_in_step()
        cluster.master_of("a").kill()
        assert run.is_ready()
        if kind is RedisTransactionalSpout:
            assert {partition: run.again(partition, run.metadata[partition]) for partition in emitted} == emitted
        assert run.new_batch() == {partition: ["y"] for partition in range(6)}
        assert not run.is_ready()
