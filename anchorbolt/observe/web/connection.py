"""A connection of the server: uvicorn's, but it drops slow clients and logs nothing.

It parses requests in C, and sends the head of an answer together with its body. Together they halve the cost of
an answer: see `make bench-page`.

A driver needs its open files for its store and for Spark, so the server keeps few connections. Above the limit it ends
the connection whose last answer is the oldest. So slow clients, however many, do not keep out others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

TIMEOUT_S = 10.0
"""The time for a client to send a request and receive the answer."""

MOST_CONNECTIONS = 200
MOST_HEADER_BYTES = 16 << 10

_silent = logging.getLogger("anchorbolt.ui.connection")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False  # a malformed request is not an event of the topology


class Connection(HttpToolsProtocol):
    """Aborts itself if no answer was completed for 10 seconds. Refuses headers that are too long."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.logger = self.access_logger = _silent
        self.access_log = False
        self._completed = self._completed_before = 0
        self._answered_at = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0  # of incomplete headers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > MOST_CONNECTIONS:
            oldest = min((each for each in self.connections if isinstance(each, Connection)), key=_answered_at)
            self.connections.discard(oldest)  # at once: `connection_lost` is called later
            oldest.transport.abort()
        self._timer = self.loop.call_later(TIMEOUT_S, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._unread_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The headers are longer than {MOST_HEADER_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._unread_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._unread_bytes = 0

    def on_response_complete(self) -> None:
        self._completed += 1
        self._answered_at = self.loop.time()
        super().on_response_complete()

    def _check(self) -> None:
        if self._completed == self._completed_before:
            self.transport.abort()
            return
        self._completed_before = self._completed
        self._timer = self.loop.call_later(TIMEOUT_S, self._check)


class _Joining:
    """A transport that sends all writes of one event-loop turn in one system call."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._written:
            data, self._written = b"".join(self._written), []
            self._transport.write(data)


def _answered_at(connection: Connection) -> float:
    return connection._answered_at
