"""The servers that other tests rely on: they keep what they must, say why they do not start, and end with the tests."""

import os
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from Hbase_thrift import IOError as HBaseIOError
from thriftpy2.transport import TTransportException

from tests.conftest import StartHBase, StartPostgres, StartRedis
from tests.servers.hbase_server import LOW_RETRY, MASTER, REGION_SERVER, THRIFT, HBaseServer
from tests.servers.postgres_server import PostgresServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import DURABLE, RedisServer
from tests.servers.server_process import Server

pytestmark = pytest.mark.thorough

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads about a process in /proc")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def hbase_values(server: HBaseServer) -> set[bytes]:
    with closing(server.connection()) as connection:
        return {row for row, _ in connection.table("kept").scan()}


def hbase_put(server: HBaseServer, row: bytes) -> None:
    with closing(server.connection()) as connection:
        if b"kept" not in connection.tables():
            connection.create_table("kept", {"f": {}})
        connection.table("kept").put(row, {b"f:q": b"v"})


def write(server: Server) -> None:
    if isinstance(server, RedisServer):
        with server.client() as client:
            client.set("key", "value")
    elif isinstance(server, PostgresServer):
        with server.client() as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS number")


def read(server: Server) -> object:
    if isinstance(server, RedisServer):
        with server.client() as client:
            return client.get("key")
    assert isinstance(server, PostgresServer)
    with server.client() as connection:
        return connection.execute("SELECT number FROM kept").fetchall()


@pytest.mark.parametrize(
    ("fixture", "options", "kept"),
    [("start_redis", DURABLE, b"value"), ("start_redis", {}, None), ("start_postgres", {}, [(1,)])],
)
def test_a_server_has_its_port_after_a_kill_and_after_a_restart_and_its_data_if_it_persists_them(
    request: pytest.FixtureRequest, fixture: str, options: dict[str, Any], kept: object
) -> None:
    server: Server = request.getfixturevalue(fixture)(**options)
    port, pid = server.port, server.pid
    write(server)
    server.kill()
    assert not is_running(pid)
    server.start()
    again = server.pid
    server.restart()
    assert not is_running(again)
    assert server.port == port
    assert read(server) == kept


@pytest.mark.parametrize("distributed", [False, True])
def test_what_hbase_acknowledged_survives_a_kill_of_each_process(start_hbase: StartHBase, distributed: bool) -> None:
    server = start_hbase(transport="framed", protocol="compact", settings=LOW_RETRY, distributed=distributed)
    pids = [server.processes[part].pid for part in server.parts]
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
        "import sys, time; from pathlib import Path; from tests.servers.redis_server import RedisServer\n"
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


@on_linux
def test_the_process_of_redis_does_not_show_the_password(start_redis: StartRedis) -> None:
    server = start_redis(password="open sesame")
    arguments = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert b"redis-server" in arguments
    assert b"sesame" not in arguments


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
