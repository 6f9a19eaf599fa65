"""Listens for other processes of the run, on threads of their own, so that a busy process still lets others in."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn
from typing import Any

from anchorbolt.engine.workers.links import HANDSHAKE_S, Address, Refused, Secret, accept

_log = logging.getLogger("anchorbolt.engine")

SECRET_BYTES = 32
_POLL_S = 0.1  # how long `close` may take

Admit = Callable[[socket.socket, bytes], None]
"""Takes a connection whose other side knows the secret, with its hello. Called on the connection's own thread."""


class LimitedServer(ThreadingMixIn, TCPServer):
    """A server with a thread for each connection. Limits their number and duration, except those passed to `trust`.

    A driver needs its threads and open files for other work. Above the limit, the oldest connection is ended, so slow
    clients cannot keep others out.
    """

    daemon_threads = True
    most_connections = 50
    longest_s = 10.0

    def __init__(self, *args: Any, **more: Any) -> None:
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, float] = {}  # start of each connection, oldest first
        self._trusted = set[socket.socket]()
        super().__init__(*args, **more)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._strangers[request] = time.monotonic()
            surplus = len(self._strangers) - self.most_connections
            self._end(list(self._strangers)[: max(0, surplus)])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._strangers.pop(request, None)
            self._trusted.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        with self._lock:
            latest = time.monotonic() - self.longest_s
            self._end([each for each, since in self._strangers.items() if since < latest])

    def trust(self, request: socket.socket) -> None:
        """Keep a connection until its client or handler ends it."""
        with self._lock:
            if self._strangers.pop(request, None) is not None:
                self._trusted.add(request)

    def end_connections(self) -> None:
        """End all connections."""
        with self._lock:
            self._end([*self._strangers, *self._trusted])

    def _end(self, connections: list[socket.socket]) -> None:
        """End connections: pending calls of their threads fail, and the threads close them. Called with the lock."""
        for each in connections:
            self._strangers.pop(each, None)
            self._trusted.discard(each)
            with suppress(OSError):  # the client has already ended it
                each.shutdown(socket.SHUT_RDWR)


class Gate(LimitedServer):
    """Admits the processes that know the secret; ends the connections of all others, and logs why."""

    request_queue_size = 512
    most_connections = 500  # that have not proved yet that they know the secret
    longest_s = HANDSHAKE_S

    def __init__(self, host: str, bind_to: str, admit: Admit, secret: Secret) -> None:
        """Listen on a free port of this machine's address `bind_to`, which others reach as `host`. Raises `OSError`."""
        self._admitted = set[socket.socket]()
        self.address_family = socket.getaddrinfo(bind_to, 0, type=socket.SOCK_STREAM)[0][0]
        super().__init__((bind_to, 0), _Handler)
        self.admit = admit
        self.address = Address(host, self.server_address[1], secret)
        threading.Thread(target=self.serve_forever, args=(_POLL_S,), name="anchorbolt-gate", daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.end_connections()

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection, and end it unless it was admitted."""
        with self._lock:
            self._strangers.pop(request, None)
            is_admitted = request in self._admitted
            self._admitted.discard(request)
        if not is_admitted:
            super().shutdown_request(request)

    def let_in(self, request: socket.socket) -> None:
        """Admit a connection that proves itself in time."""
        connection, hello = accept(request, self.address.secret)
        with self._lock:
            self._strangers.pop(request, None)
            self._admitted.add(request)
        self.admit(connection, hello)

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, Refused):
            _log.warning("a connection from %s was refused: %s", _shown(client_address), error)
        elif isinstance(error, OSError):
            _log.info("a connection from %s has ended before it was let in: %s", _shown(client_address), error)
        else:
            _log.exception("a connection from %s could not be let in", _shown(client_address))


class _Handler(BaseRequestHandler):
    server: Gate

    def handle(self) -> None:
        self.server.let_in(self.request)


def _shown(client_address: object) -> str:
    return ":".join(map(str, client_address[:2])) if isinstance(client_address, tuple) else str(client_address)
