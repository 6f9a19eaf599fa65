"""A server with a thread for each connection. It limits the number and the duration of untrusted connections.

A driver needs its threads and open files for other work. Above the limit, the oldest connection is ended, so slow
clients cannot keep others out.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any


class LimitedServer(ThreadingMixIn, TCPServer):
    """Limits the number and duration of connections, except connections passed to `trust`."""

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
