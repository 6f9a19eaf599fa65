"""A connection of the server: uvicorn's, but it ends with a client that is too slow, and logs nothing.

A driver needs its open files for its store and for Spark, so the server keeps few connections. If there are more, the
connection that has waited longest since its last answer is ended. Slow clients, however many, thus keep out no other.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

TIMEOUT_S = 10.0
"""For a client to send a whole request and to take the whole answer."""

MOST_CONNECTIONS = 200

_silent = logging.getLogger("anchorbolt.ui.connection")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False  # a malformed request is no event of the topology


class Connection(H11Protocol):
    """Aborts itself when no answer was completed for 10 seconds."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.logger = self.access_logger = _silent
        self.access_log = False
        self._completed = self._completed_before = 0
        self._answered_at = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            oldest = min((each for each in self.connections if isinstance(each, Connection)), key=_answered_at)
            self.connections.discard(oldest)  # at once: `connection_lost` is called later
            oldest.transport.abort()
        self._timer = self.loop.call_later(TIMEOUT_S, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

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


def _answered_at(connection: Connection) -> float:
    return connection._answered_at
