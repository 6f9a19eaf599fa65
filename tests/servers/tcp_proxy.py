"""A proxy on loopback in front of a server, which loses, delays and cuts what goes through it, or takes off TLS."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
from contextlib import suppress
from enum import Enum

from tests.servers.server_process import HOST

_CHUNK = 1 << 16


class Loss(Enum):
    """What befalls the next request, once."""

    BEFORE = "the connection is cut before the request arrives"
    AFTER = "the connection is cut right after the request was sent"
    REPLY = "the request is carried out, and the connection cut instead of the reply"
    SILENCE = "the request is swallowed, and the connection stays open"
    HALF = "the request is carried out, and the client's end of the connection half-closed instead of the reply"
    LATE = "the request arrives late, when the client has given it up"


class TcpProxy:
    """Forwards connections to a server until it is closed. A context manager."""

    def __init__(
        self, port: int, *, late_by_s: float = 1.0, lost_replies: int | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._target = port
        self._late_by_s = late_by_s
        self._lost_replies = lost_replies
        self._tls = tls
        self._replies_seen = itertools.count(1)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.struck = 0
        self._armed: Loss | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arm(self, loss: Loss) -> None:
        """Let this befall the next request of whatever connection."""
        with self._lock:
            self._armed = loss

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            sockets = [self._listener, *self._sockets]
        for each in sockets:
            _cut(each)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._tls is not None:
                    client = self._tls.wrap_socket(client, server_side=True)
                server = socket.create_connection((HOST, self._target))
            except OSError:
                _cut(client)
                continue
            with self._lock:
                self._sockets += [client, server]
            connection = _Connection(client, server)
            self._start(self._requests, connection)
            self._start(self._replies, connection)

    def _requests(self, connection: _Connection) -> None:
        client, server = connection.client, connection.server
        while data := _received(client):
            with self._lock:
                loss, self._armed = self._armed, None
                self.struck += loss is not None
            if loss is Loss.BEFORE:
                break
            if loss is Loss.SILENCE:
                connection.is_silent = True
            if loss is Loss.LATE:
                connection.is_silent = True
                self._closed.wait(self._late_by_s)
                _send(server, data)
                continue
            if loss in (Loss.REPLY, Loss.HALF):
                connection.instead_of_reply = loss
            if not connection.is_silent and not _send(server, data):
                break
            if loss is Loss.AFTER:
                break
        _cut(client)
        if not connection.is_silent:
            _cut(server)

    def _replies(self, connection: _Connection) -> None:
        client, server = connection.client, connection.server
        while data := _received(server):
            is_lost = self._lost_replies and next(self._replies_seen) % self._lost_replies == 0
            if is_lost or connection.instead_of_reply is Loss.REPLY:
                break
            if connection.instead_of_reply is Loss.HALF:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_WR)
                return
            if not connection.is_silent and not _send(client, data):
                break
        _cut(server)
        if not connection.is_silent:
            _cut(client)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.is_silent = False
        self.instead_of_reply: Loss | None = None


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK)
    except OSError:
        return b""


def _send(target: socket.socket, data: bytes) -> bool:
    try:
        target.sendall(data)
    except OSError:
        return False
    return True


def _cut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
