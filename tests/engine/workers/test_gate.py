"""Only processes that know the run's secret come through a gate, and nobody keeps them out."""

import logging
import queue
import secrets
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.engine.spark.workers.security import new_secret
from anchorbolt.engine.workers import links
from anchorbolt.engine.workers.frames import HEAD, Frame, Kind
from anchorbolt.engine.workers.gate import SECRET_BYTES, Gate
from anchorbolt.engine.workers.links import LONGEST_HELLO, Address, Link, Refused, Secret, accept, connect, exactly

DEADLINE_S = 30.0
SECRET = Secret(secrets.token_bytes(SECRET_BYTES))
PROOF = 64  # bytes: the client's nonce and its proof


class Door:
    """A gate, and whom it has admitted."""

    def __init__(self, gate: Gate) -> None:
        self.admitted: queue.SimpleQueue[tuple[socket.socket, bytes]] = queue.SimpleQueue()
        gate.admit = lambda connection, hello: self.admitted.put((connection, hello))
        self.address = gate.address
        self._connections = ExitStack()

    def keep(self, connection: socket.socket) -> socket.socket:
        connection.settimeout(DEADLINE_S)
        return self._connections.enter_context(connection)

    def knock(self) -> socket.socket:
        """Connect without a handshake."""
        return self.keep(socket.create_connection(self.address[:2]))

    def let_in(self, hello: bytes = b"hello") -> tuple[socket.socket, socket.socket]:
        """Connect as it should be; return both ends."""
        mine = self.keep(connect(self.address, lambda _: hello))
        theirs, heard = self.admitted.get(timeout=DEADLINE_S)
        self.keep(theirs)
        assert heard == hello
        return mine, theirs

    def close(self) -> None:
        self._connections.close()


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    """One for all tests: to close it takes half a second."""
    with closing(Gate("127.0.0.1", "127.0.0.1", lambda *_: None, SECRET)) as gate:
        yield gate


@pytest.fixture
def door(gate: Gate) -> Iterator[Door]:
    with closing(Door(gate)) as door:
        yield door


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Waits until something is logged; returns the warnings."""
    logged = threading.Event()

    class Notify(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.set()

    log = logging.getLogger("anchorbolt.engine")
    handler = Notify()
    log.addHandler(handler)
    caplog.set_level(logging.DEBUG)

    def wait() -> list[str]:
        assert logged.wait(DEADLINE_S)
        log.removeHandler(handler)
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    return wait


def is_ended(connection: socket.socket) -> bool:
    """Read what is left; return whether the other side ends the connection."""
    try:
        while connection.recv(1000):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def shake(connection: socket.socket, secret: Secret) -> None:
    """Prove the secret, as `connect` does, but send no hello."""
    nonce = exactly(connection, 32)
    connection.sendall(b"n" * 32 + links._proof(secret, b"client", nonce, b"n" * 32))
    exactly(connection, 32)


def test_who_knows_the_secret_is_admitted_and_frames_follow(door: Door) -> None:
    mine, theirs = map(Link, door.let_in())
    frames = [Frame(Kind.BLOB, 1, 2, 3, b"x" * size) for size in (0, 1, 300_000)]
    for frame in frames:
        mine.send(frame)
    found: list[Frame] = []
    while len(found) < len(frames):
        mine.flush()
        assert select.select([theirs.socket], [], [], DEADLINE_S)[0]
        found += theirs.receive()
    assert found == frames
    assert mine.bytes_waiting == 0
    assert mine.bytes_sent == sum(len(frame.encoded()) for frame in frames)


def test_a_client_with_another_secret_is_refused_with_a_warning(door: Door, warnings: Callable[[], list[str]]) -> None:
    with pytest.raises((Refused, ConnectionError)):
        connect(door.address._replace(secret=Secret(b"wrong")), lambda _: b"hello")
    [warning] = warnings()
    assert "refused" in warning
    assert "secret" in warning
    door.let_in()
    assert door.admitted.empty()


def test_a_server_with_another_secret_is_refused_by_the_client() -> None:
    """It also cannot learn a proof from the client that would let it in elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def pretend() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"n" * 32)
                exactly(connection, PROOF)
                connection.sendall(b"p" * 32)

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(Refused, match="does not know the secret"):
            connect(Address("127.0.0.1", server.getsockname()[1], Secret(b"secret")), lambda _: b"hello")
        thread.join(DEADLINE_S)


def test_accept_refuses_a_client_with_another_secret() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x" * PROOF)
        with pytest.raises(Refused):
            accept(ours, Secret(b"secret"))


def test_a_recorded_handshake_is_refused(door: Door, warnings: Callable[[], list[str]]) -> None:
    recorded: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as between:

        def listen_in() -> None:
            client, _ = between.accept()
            server = socket.create_connection(door.address[:2])
            with client, server:
                client.sendall(exactly(server, 32))
                recorded.append(exactly(client, PROOF))
                server.sendall(recorded[0])
                client.sendall(exactly(server, 32))
                recorded.append(exactly(client, HEAD.size + 5))
                server.sendall(recorded[1])
                is_ended(client)

        thread = threading.Thread(target=listen_in)
        thread.start()
        address = door.address._replace(port=between.getsockname()[1])
        mine = door.keep(connect(address, lambda _: b"hello"))
        door.keep(door.admitted.get(timeout=DEADLINE_S)[0])
        mine.close()
        thread.join(DEADLINE_S)
    again = door.knock()
    again.sendall(b"".join(recorded))
    assert is_ended(again)
    assert len(warnings()) == 1
    assert door.admitted.empty()


def test_what_a_server_proved_is_not_taken_as_a_proof_of_a_client(door: Door) -> None:
    client = door.knock()
    nonce = exactly(client, 32)
    client.sendall(b"n" * 32 + links._proof(door.address.secret, b"server", nonce, b"n" * 32))
    assert is_ended(client)
    assert door.admitted.empty()


@pytest.mark.parametrize(
    "head",
    [
        HEAD.pack(LONGEST_HELLO + 1, Kind.HELLO, 0, 0, 0),
        HEAD.pack(5, Kind.BLOB, 0, 0, 0),
        b"GET /index.html HTTP/1.1\r\n",
    ],
    ids=["too large", "another frame", "no frame"],
)
def test_a_wrong_hello_is_refused(door: Door, warnings: Callable[[], list[str]], head: bytes) -> None:
    client = door.knock()
    shake(client, door.address.secret)
    client.sendall(head)
    assert is_ended(client)
    [warning] = warnings()
    assert "in place of its hello" in warning
    door.let_in()
    assert door.admitted.empty()


def test_the_longest_hello_is_taken(door: Door) -> None:
    door.let_in(b"x" * LONGEST_HELLO)


@pytest.mark.parametrize("said", [0, 10, 32 + 10, PROOF, PROOF + 5, PROOF + HEAD.size + 2])
def test_a_client_that_stops_in_the_middle_is_ended_and_keeps_nobody_out(
    door: Door, monkeypatch: pytest.MonkeyPatch, said: int
) -> None:
    monkeypatch.setattr(links, "HANDSHAKE_S", 0.2)
    client = door.knock()
    nonce, secret = exactly(client, 32), door.address.secret
    proof = b"n" * 32 + links._proof(secret, b"client", nonce, b"n" * 32)
    client.sendall((proof + Frame(Kind.HELLO, payload=b"hello").encoded())[:said])
    door.let_in()
    assert is_ended(client)
    assert door.admitted.empty()
    door.let_in()


def test_a_gate_ends_strangers_when_their_time_is_over_even_if_they_send_bytes(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte begins the time of one read anew, but not the time of the connection."""
    monkeypatch.setattr(Gate, "longest_s", 0.1)
    client = door.knock()
    assert is_ended(client)
    assert door.admitted.empty()


def test_the_secret_is_not_shown(
    door: Door, warnings: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    secret = door.address.secret.key
    assert len(secret) == SECRET_BYTES
    client = door.knock()
    client.sendall(b"x" * PROOF)
    assert is_ended(client)
    warnings()
    shown = [repr(door.address), str(door.address), f"{door.address}"]
    shown += [record.getMessage() + str(record.__dict__) for record in caplog.records]
    for text in shown:
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text
    assert shown[0] == f"Address(127.0.0.1:{door.address.port})"


def test_encrypted_connections_need_the_certificate_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Mock()
    session.sparkContext.getConf.return_value.get = {"spark.network.crypto.enabled": "true"}.get
    secret = new_secret(session)
    assert secret.key.hex() not in repr(secret)
    with closing(Gate("127.0.0.1", "127.0.0.1", lambda *_: None, secret)) as gate, closing(Door(gate)) as door:
        mine, theirs = map(Link, door.let_in())
        assert isinstance(mine.socket, ssl.SSLSocket)
        sent = Frame(Kind.BLOB, 1, 2, 3, secrets.token_bytes(3_000_000))
        mine.send(sent)
        found: list[Frame] = []
        while not found:
            mine.flush()
            found += theirs.receive()
        assert found == [sent]
        monkeypatch.setattr(links, "HANDSHAKE_S", 0.5)
        other = new_secret(session)._replace(key=secret.key)
        with pytest.raises((Refused, OSError)):
            door.keep(connect(door.address._replace(secret=other), lambda _: b"hello"))
        with pytest.raises((Refused, OSError)):  # it does not speak TLS
            connect(door.address._replace(secret=Secret(secret.key)), lambda _: b"hello")
        assert door.admitted.empty()
