"""A server with a thread for each connection, which keeps few connections of strangers, and none for long.

A driver needs its threads and open files for other things. If there are more connections than the limit, the oldest is
ended: slow clients, however many, keep out no other.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any


class LimitedServer(ThreadingMixIn, TCPServer):
    """Limits how many connections there are and for how long, but not those that `trust` was called for."""

    daemon_threads = True
    most_connections = 50
    longest_s = 10.0

    def __init__(self, *args: Any, **more: Any) -> None:
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, float] = {}  # since when, oldest first
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
        """Keep a connection as long as its client and its handler like."""
        with self._lock:
            if self._strangers.pop(request, None) is not None:
                self._trusted.add(request)

    def end_connections(self) -> None:
        """End all connections."""
        with self._lock:
            self._end([*self._strangers, *self._trusted])

    def _end(self, connections: list[socket.socket]) -> None:
        """End connections: what their threads wait for fails, and these close them. Called with the lock."""
        for each in connections:
            self._strangers.pop(each, None)
            self._trusted.discard(each)
            with suppress(OSError):  # the client has ended it already
                each.shutdown(socket.SHUT_RDWR)
