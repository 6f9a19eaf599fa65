"""A server keeps few connections of strangers, none for long, and those that it trusts."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from socketserver import StreamRequestHandler

import pytest

from anchorbolt.engine.workers.gate import LimitedServer

DEADLINE_S = 30.0

Connect = Callable[[bytes], socket.socket]


class Echo(StreamRequestHandler):
    """Trusts who says `friend`, and sends every line back."""

    server: LimitedServer

    def handle(self) -> None:
        for line in self.rfile:
            if line == b"friend\n":
                self.server.trust(self.connection)
            self.wfile.write(line)


class Small(LimitedServer):
    most_connections = 2
    longest_s = 60.0

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that were ended."""


@pytest.fixture
def server() -> Iterator[Small]:
    made = Small(("127.0.0.1", 0), Echo)
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()
    made.end_connections()


@pytest.fixture
def connected(server: Small) -> Iterator[Connect]:
    """Connects, and sends a first line."""
    with ExitStack() as connections:

        def connect(line: bytes) -> socket.socket:
            address = server.server_address[:2]
            connection = connections.enter_context(socket.create_connection(address, timeout=DEADLINE_S))
            assert echoed(connection, line)
            return connection

        yield connect


def echoed(connection: socket.socket, line: bytes) -> bool:
    """Return whether the server still answers on a connection."""
    try:
        connection.sendall(line)
        return connection.recv(100) == line
    except OSError:
        return False


def test_the_oldest_stranger_is_ended_if_there_are_too_many_but_no_friend(server: Small, connected: Connect) -> None:
    friend = connected(b"friend\n")
    strangers = [connected(b"hello\n") for _ in range(4)]
    assert [echoed(each, b"still\n") for each in strangers] == [False, False, True, True]
    assert echoed(friend, b"still\n")


def test_strangers_are_ended_after_a_while_however_they_behave(server: Small, connected: Connect) -> None:
    friend, stranger = connected(b"friend\n"), connected(b"hello\n")
    server.longest_s = 0.0
    stranger.settimeout(DEADLINE_S)
    assert stranger.recv(1) == b""
    assert echoed(friend, b"still\n")


def test_the_end_of_all_connections_leaves_none(server: Small, connected: Connect) -> None:
    both = connected(b"friend\n"), connected(b"hello\n")
    server.end_connections()
    assert not any(echoed(each, b"still\n") for each in both)
