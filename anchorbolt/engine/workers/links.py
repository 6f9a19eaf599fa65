"""Connections between processes of one run: each side proves that it knows the run's secret; then frames follow."""

from __future__ import annotations

import hmac
import secrets
import socket
import ssl
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from anchorbolt.engine.workers.frames import HEAD, Frame, Frames, Kind

HANDSHAKE_S = 10.0
LONGEST_HELLO = 1 << 16  # bytes
_CHUNK = 1 << 20
_MOST = 4 << 20  # bytes that `Link.receive` takes at a time, about
_BUFFER = 4 << 20
_NONCE = 32
_DIGEST = 32
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_UNANSWERED = 6  # times that the system sends again, after about 13 s, until a `Link` counts as dead


class Secret(NamedTuple):
    """What only the processes of a run know."""

    key: bytes
    certificate: bytes = b""  # of the run, with its private key, in PEM; empty if connections are not encrypted

    def __repr__(self) -> str:
        return "Secret(***)"


class Address(NamedTuple):
    """Where a process of the run listens, and the run's secret. Pickled to the tasks."""

    host: str
    port: int
    secret: Secret

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"


class Refused(ConnectionError):
    """The other side does not know the secret, or sends no frames."""


class Link:
    """A connection that never blocks: what cannot be sent at once waits in memory. `send` may be called on any thread.

    Raises `OSError` if the connection is lost, and `SerializationError` if the other side sends no frames.
    """

    def __init__(self, connection: socket.socket, behind: set[Link] | None = None) -> None:
        """Take a connection; while something waits to be sent, the link is in `behind`."""
        connection.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self.socket = connection
        self.bytes_sent = 0
        self.bytes_waiting = 0
        self._behind = set[Link]() if behind is None else behind
        self._frames = Frames()
        self._waiting: deque[memoryview] = deque()
        self._lock = threading.Lock()

    def send(self, frame: Frame) -> None:
        """Send a frame, or let the rest of it wait for `flush`."""
        data = frame.encoded()
        with self._lock:
            self.bytes_sent += len(data)
            sent = 0 if self._waiting else self._send(data)
            if sent < len(data):
                self._waiting.append(memoryview(data)[sent:])
                self.bytes_waiting += len(data) - sent
                self._behind.add(self)

    def flush(self) -> None:
        """Send the waiting data until the system's buffer is full."""
        with self._lock:
            while self._waiting:
                first = self._waiting[0]
                sent = self._send(first)
                self.bytes_waiting -= sent
                if sent < len(first):
                    self._waiting[0] = first[sent:]
                    return
                self._waiting.popleft()
            self._behind.discard(self)

    def receive(self) -> list[Frame]:
        """Return frames that have arrived: not all if they are many, and the system then tells of the link again.

        Raises `EOFError` if the other side has ended the connection.
        """
        found: list[Frame] = []
        taken = 0
        while True:
            try:
                with self._lock:  # one thread at a time may use an encrypted connection
                    data = self.socket.recv(_CHUNK)
            except _LATER:
                return found
            if not data:
                if found:
                    return found
                raise EOFError("within a frame" if self._frames.is_cut else "the connection was ended")
            found += self._frames.add(data)
            taken += len(data)
            if isinstance(self.socket, ssl.SSLSocket):
                if taken >= _MOST and not self.socket.pending():  # the system does not tell of what it holds itself
                    return found
            elif len(data) < _CHUNK or taken >= _MOST:
                return found

    @property
    def is_cut(self) -> bool:
        """Whether a part of a frame has arrived, but not all of it."""
        return self._frames.is_cut

    def end_if_dead(self) -> None:
        """End the connection if the other machine does not answer: `receive` then raises. May be called on any thread.

        Linux tells how often it has sent again what waits, and has asked for space, without any answer.
        """
        if hasattr(socket, "TCP_INFO"):
            with suppress(OSError):  # not of TCP, or ended
                info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 4)
                if max(info[2:4]) >= _UNANSWERED:
                    self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._behind.discard(self)
        with suppress(OSError):
            self.socket.close()

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return self.socket.send(data)
        except _LATER:
            return 0


def connect(address: Address, hello: Callable[[socket.socket], bytes]) -> socket.socket:
    """Connect to a process of the run, and introduce this one by `hello`, which gets the connection.

    Raises `OSError` if it cannot be reached, and `Refused` if it does not know the secret.
    """
    connection = socket.create_connection((address.host, address.port), timeout=HANDSHAKE_S)
    try:
        notice_dead_peers(connection)
        connection = _encrypted(connection, address.secret, server_side=False)
        theirs, mine = exactly(connection, _NONCE), secrets.token_bytes(_NONCE)
        connection.sendall(mine + _proof(address.secret, b"client", theirs, mine))
        if not hmac.compare_digest(exactly(connection, _DIGEST), _proof(address.secret, b"server", mine, theirs)):
            raise Refused(f"who listens at {address.host}:{address.port} does not know the secret of this run")
        connection.sendall(Frame(Kind.HELLO, payload=hello(connection)).encoded())
    except BaseException:
        connection.close()
        raise
    return connection


def accept(connection: socket.socket, secret: Secret) -> tuple[socket.socket, bytes]:
    """Check that the other side knows the secret; return the connection to use, and its hello.

    Raises `OSError`, or `Refused`.
    """
    connection.settimeout(HANDSHAKE_S)
    notice_dead_peers(connection)
    connection = _encrypted(connection, secret, server_side=True)
    mine = secrets.token_bytes(_NONCE)
    connection.sendall(mine)
    answer = exactly(connection, _NONCE + _DIGEST)
    theirs, proof = answer[:_NONCE], answer[_NONCE:]
    if not hmac.compare_digest(proof, _proof(secret, b"client", mine, theirs)):
        raise Refused("a client does not know the secret of this run")
    connection.sendall(_proof(secret, b"server", theirs, mine))
    size, kind, *_ = HEAD.unpack(exactly(connection, HEAD.size))
    if kind != Kind.HELLO or size > LONGEST_HELLO:
        raise Refused(f"a client announced a frame of kind {kind} with {size} bytes in place of its hello")
    return connection, exactly(connection, size)


def notice_dead_peers(connection: socket.socket) -> None:
    """Make the system end an idle connection within seconds if the other machine does not answer.

    This does not cover data that wait to be sent: see `Link.end_if_dead`.
    """
    with suppress(OSError):  # not of TCP, or unknown to this system
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 3), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def exactly(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes. Raises `OSError`."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the other side has closed the connection")
        data += more
    return data


def _encrypted(connection: socket.socket, secret: Secret, *, server_side: bool) -> socket.socket:
    if not secret.certificate:
        return connection
    try:
        return _context(secret.certificate, server_side).wrap_socket(connection, server_side=server_side)
    except ssl.SSLError as error:
        raise Refused(f"the other side does not have the certificate of this run: {error}") from error


@cache
def _context(certificate: bytes, server_side: bool) -> ssl.SSLContext:
    """Return a context in which both sides must have the run's one certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is of the run, not of a machine
    context.verify_mode = ssl.CERT_REQUIRED
    with tempfile.NamedTemporaryFile() as file:  # only the user may read it; `ssl` reads keys only from files
        file.write(certificate)
        file.flush()
        context.load_cert_chain(file.name)
        context.load_verify_locations(file.name)
    return context


def _proof(secret: Secret, role: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(secret.key, role + first + second, "sha256")
