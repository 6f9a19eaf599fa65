"""The servers that other tests rely on behave like the real thing, because they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import redis

from tests.conftest import StartRedis
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import AT_ONCE, DURABLE, RedisServer, RedisUser

pytestmark = pytest.mark.thorough


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("round_", [1, 2])
def test_the_shared_database_is_empty_for_each_test(redis_database: RedisServer, round_: int) -> None:
    with redis_database.client() as client:
        assert client.dbsize() == 0
        client.set("left over", round_)


def test_a_durable_server_has_its_data_after_a_kill(start_redis: StartRedis) -> None:
    server = start_redis(**DURABLE)
    port, pid = server.port, server.pid
    with server.client() as client:
        client.set("key", "value")
    server.kill()
    assert not is_running(pid)
    server.restart()
    assert server.port == port
    assert server.pid != pid
    with server.client() as client:
        assert client.get("key") == b"value"


def test_a_server_that_persists_nothing_comes_back_empty(start_redis: StartRedis) -> None:
    server = start_redis()
    with server.client() as client:
        client.set("key", "value")
    server.kill()
    server.restart()
    with server.client() as client:
        assert client.get("key") is None


def test_a_restart_waits_for_the_server_that_still_runs(start_redis: StartRedis) -> None:
    server = start_redis(**DURABLE)
    pid = server.pid
    server.restart()
    assert not is_running(pid)
    with server.client() as client:
        assert client.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the arguments of a process from /proc")
def test_a_password_is_asked_for_and_not_shown_by_the_process(start_redis: StartRedis) -> None:
    server = start_redis(password="open sesame")
    with server.client() as client:
        assert client.ping()
    with (
        redis.Redis(host=server.host, port=server.port, retry=AT_ONCE) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()
    arguments = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert b"redis-server" in arguments
    assert b"sesame" not in arguments


def test_an_acl_user_may_do_only_what_its_rules_say(start_redis: StartRedis) -> None:
    server = start_redis(users={"reader": RedisUser("secret", "~* +get +ping")})
    with server.client("reader") as client:
        assert client.get("key") is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.set("key", "value")


def test_a_tls_server_is_checked_against_its_authority(start_redis: StartRedis) -> None:
    server = start_redis(tls=True, password="secret")
    with server.client() as client:
        assert client.ping()
    with (
        redis.Redis(
            host=server.host, port=server.port, password="secret", ssl=True, retry=AT_ONCE
        ) as stranger,
        pytest.raises(redis.ConnectionError, match="certificate verify failed"),
    ):
        stranger.ping()


@pytest.mark.parametrize("until", ["begun", "half of it", "all keys", "ended"])
def test_a_slot_is_brought_back_however_far_its_move_has_come(
    empty_redis_cluster: RedisCluster, until: str
) -> None:
    cluster = empty_redis_cluster
    slot, owner = cluster.slot_of("{a}"), cluster.master_of("{a}")
    other = next(server for server in cluster.current_masters() if server is not owner)
    keys = [f"{{a}}{number}" for number in range(10)]
    with owner.client() as client:
        for key in keys:
            client.set(key, key)
        cluster.begin_move(slot, owner, other)
        for _ in range({"begun": 0, "half of it": 5}.get(until, 10)):
            assert cluster.move_keys(slot, owner, other, 1) == 1
        if until == "ended":
            cluster.end_move(slot, other)
        cluster.bring_back(slot, owner, other)
        assert cluster.master_of("{a}") is owner
        assert [client.get(key) for key in keys] == [key.encode() for key in keys]
    with other.client() as client:
        assert client.execute_command("CLUSTER COUNTKEYSINSLOT", slot) == 0


def test_a_server_that_cannot_start_says_why(start_redis: StartRedis) -> None:
    with pytest.raises(RuntimeError, match="appendfsync"):
        start_redis(appendfsync="sometimes")
