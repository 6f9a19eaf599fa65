"""The servers that other tests rely on: they keep what they must, say why they do not start, and end with the tests."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis
from Hbase_thrift import IOError as HBaseIOError
from thriftpy2.transport import TTransportException

from tests.conftest import StartHBase, StartPostgres, StartRedis
from tests.support.hbase_server import LOW_RETRY, MASTER, REGION_SERVER, THRIFT, HBaseServer
from tests.support.postgres_server import PostgresServer
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import AT_ONCE, DURABLE, RedisServer, RedisUser
from tests.support.server_process import Server

pytestmark = pytest.mark.thorough

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads about a process in /proc")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def hbase_values(server: HBaseServer) -> set[bytes]:
    connection = server.connection()
    try:
        return {row for row, _ in connection.table("kept").scan()}
    finally:
        connection.close()


def hbase_put(server: HBaseServer, row: bytes) -> None:
    connection = server.connection()
    try:
        if b"kept" not in connection.tables():
            connection.create_table("kept", {"f": {}})
        connection.table("kept").put(row, {b"f:q": b"v"})
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_server_has_its_port_and_its_data_after_a_kill_and_after_a_restart(
    request: pytest.FixtureRequest, kind: str
) -> None:
    options = DURABLE if kind == "redis" else {}
    server: Server = request.getfixturevalue(f"start_{kind}")(**options)
    port, pid = server.port, server.pid
    if isinstance(server, RedisServer):
        with server.client() as client:
            client.set("key", "value")
    elif isinstance(server, PostgresServer):
        with server.client() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
    server.kill()
    assert not is_running(pid)
    server.start()
    again = server.pid
    server.restart()
    assert not is_running(again)
    assert server.port == port
    if isinstance(server, RedisServer):
        with server.client() as client:
            assert client.get("key") == b"value"
    elif isinstance(server, PostgresServer):
        with server.client() as connection:
            assert connection.execute("SELECT number FROM kept").fetchall() == [(1,)]


@pytest.mark.parametrize("distributed", [False, True])
def test_what_hbase_acknowledged_survives_a_kill_of_each_process(start_hbase: StartHBase, distributed: bool) -> None:
    server = start_hbase(transport="framed", protocol="compact", settings=LOW_RETRY, distributed=distributed)
    pids = [server.pid(part) for part in server.parts]
    assert len(set(pids)) == (4 if distributed else 2)
    for row, part in ((b"1", REGION_SERVER if distributed else MASTER), (b"2", THRIFT)):
        hbase_put(server, row)
        server.kill(part)
        if part == THRIFT or not distributed:
            with pytest.raises((HBaseIOError, OSError, TTransportException)):
                hbase_values(server)
        server.start()
    assert hbase_values(server) == {b"1", b"2"}
    server.stop()
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.parametrize(
    ("fixture", "options", "named"),
    [
        ("start_redis", {"appendfsync": "sometimes"}, "appendfsync"),
        ("start_postgres", {"work_mem": "much"}, "work_mem"),
        ("start_hbase", {"settings": {"hbase.thrift.minWorkerThreads": "often"}}, "often"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    request: pytest.FixtureRequest, fixture: str, options: dict[str, object], named: str
) -> None:
    with pytest.raises(RuntimeError, match=named):
        request.getfixturevalue(fixture)(**options)


@on_linux
def test_a_server_ends_with_a_process_that_is_killed(redis_program: str, tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tests.support.redis_server import RedisServer\n"
        "server = RedisServer(sys.argv[1], Path(sys.argv[2])); server.start(); print(server.pid, flush=True)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", program, redis_program, str(tmp_path / "redis")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        handle = os.pidfd_open(pid)
        owner.send_signal(signal.SIGKILL)
    assert select.select([handle], [], [], 30)[0], "the server still runs"
    os.close(handle)


@pytest.mark.parametrize("round_", [1, 2])
def test_the_shared_database_is_empty_for_each_test(redis_database: RedisServer, round_: int) -> None:
    with redis_database.client() as client:
        assert client.dbsize() == 0
        client.set("left over", round_)


def test_a_server_that_persists_nothing_comes_back_empty(start_redis: StartRedis) -> None:
    server = start_redis()
    with server.client() as client:
        client.set("key", "value")
        server.kill()
        server.restart()
    with server.client() as client:
        assert client.get("key") is None


@on_linux
def test_redis_asks_for_a_password_which_its_process_does_not_show(start_redis: StartRedis) -> None:
    server = start_redis(password="open sesame")
    stranger = redis.Redis(host=server.host, port=server.port, retry=AT_ONCE)
    with stranger, pytest.raises(redis.AuthenticationError):
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
    stranger = redis.Redis(host=server.host, port=server.port, password="secret", ssl=True, retry=AT_ONCE)
    with stranger, pytest.raises(redis.ConnectionError, match="certificate verify failed"):
        stranger.ping()


@pytest.mark.parametrize("until", ["begun", "half of it", "all keys", "ended"])
def test_a_slot_is_brought_back_however_far_its_move_has_come(empty_redis_cluster: RedisCluster, until: str) -> None:
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


def test_a_kill_cuts_the_open_connections_of_postgres(start_postgres: StartPostgres) -> None:
    server = start_postgres()
    with server.client() as client:
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")


@on_linux
def test_postgres_asks_for_a_password_and_its_process_is_not_roots(postgres_server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        postgres_server.client(password="another")
    process = Path(f"/proc/{postgres_server.pid}")
    assert process.stat().st_uid != 0
    assert postgres_server.password.encode() not in (process / "cmdline").read_bytes()
