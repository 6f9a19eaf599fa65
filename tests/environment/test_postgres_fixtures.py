"""The PostgreSQL that other tests rely on behaves like the real thing, because it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg
import pytest

from tests.conftest import StartPostgres
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.thorough


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_has_its_data_after_a_kill_and_after_a_restart(start_postgres: StartPostgres) -> None:
    server = start_postgres()
    port, pid = server.port, server.pid
    with server.client() as client:
        client.execute("CREATE TABLE kept AS SELECT 1 AS number")
    server.kill()
    assert not is_running(pid)
    server.start()
    assert server.port == port
    again = server.pid
    server.restart()
    assert not is_running(again)
    with server.client() as client:
        assert client.execute("SELECT number FROM kept").fetchall() == [(1,)]


def test_a_kill_cuts_the_connections_that_are_open(start_postgres: StartPostgres) -> None:
    server = start_postgres()
    with server.client() as client:
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")


def test_a_server_that_cannot_start_says_why(start_postgres: StartPostgres) -> None:
    with pytest.raises(RuntimeError, match="work_mem"):
        start_postgres(work_mem="much")


def test_a_password_is_asked_for(postgres_server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        postgres_server.client(password="another")


@pytest.mark.skipif(sys.platform != "linux", reason="reads about a process in /proc")
def test_the_process_belongs_to_nobody_of_importance_and_shows_no_password(
    postgres_server: PostgresServer,
) -> None:
    process = Path(f"/proc/{postgres_server.pid}")
    assert process.stat().st_uid != 0
    arguments = (process / "cmdline").read_bytes()
    assert b"postgres" in arguments
    assert postgres_server.password.encode() not in arguments
