"""The HBase that other tests rely on: it starts, forgets nothing when it is killed, and leaves nothing behind."""

from __future__ import annotations

import os

import pytest
from Hbase_thrift import IOError as HBaseIOError
from thriftpy2.transport import TTransportException

from tests.conftest import StartHBase
from tests.support.hbase_server import LOW_RETRY, MASTER, REGION_SERVER, THRIFT, HBaseServer

pytestmark = pytest.mark.thorough


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def values(server: HBaseServer, table: str) -> dict[bytes, bytes]:
    connection = server.connection()
    try:
        return {row: columns[b"f:q"] for row, columns in connection.table(table).scan()}
    finally:
        connection.close()


def put(server: HBaseServer, table: str, row: bytes) -> None:
    connection = server.connection()
    try:
        if table.encode() not in connection.tables():
            connection.create_table(table, {"f": {}})
        connection.table(table).put(row, {b"f:q": b"v"})
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("table", ["one", "two"])
def test_the_shared_server_serves_each_test(hbase_server: HBaseServer, table: str) -> None:
    put(hbase_server, table, b"row")
    assert values(hbase_server, table) == {b"row": b"v"}


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_kill_of_either_process(start_hbase: StartHBase) -> None:
    server = start_hbase(transport="framed", protocol="compact", settings=LOW_RETRY)
    port, pids = server.port, [server.pid(part) for part in server.parts]
    put(server, "kept", b"1")
    server.kill(MASTER)
    with pytest.raises((HBaseIOError, OSError)):
        values(server, "kept")
    server.start()
    put(server, "kept", b"2")
    server.kill(THRIFT)
    with pytest.raises(TTransportException):
        values(server, "kept")
    server.start()
    assert values(server, "kept") == {b"1": b"v", b"2": b"v"}
    assert server.port == port
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.slow
def test_a_region_server_of_its_own_is_killed_and_started_again(start_hbase: StartHBase) -> None:
    server = start_hbase(distributed=True)
    put(server, "kept", b"1")
    server.kill(REGION_SERVER)
    server.start()
    assert values(server, "kept") == {b"1": b"v"}
    pids = [server.pid(part) for part in server.parts]
    assert len(set(pids)) == 4
    server.stop()
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(start_hbase: StartHBase) -> None:
    with pytest.raises(RuntimeError, match="often"):
        start_hbase(settings={"hbase.thrift.minWorkerThreads": "often"})
