"""Shows the metrics of a run to Prometheus, over HTTP on this machine's loopback address."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from anchorbolt.observe.web.access import Access
from anchorbolt.observe.web.guard import Guard, http_error
from anchorbolt.observe.web.server import HttpServer, place_of

HOST = "127.0.0.1"
_FRESH_S = 1.0
_OPEN_METRICS = "application/openmetrics-text"


class MetricsText:
    """A collector's metrics, made at most once a second: many scrapes cost as much as one. Thread-safe."""

    def __init__(self, collector: Collector, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, tuple[float, bytes]] = {}  # by content type

    def for_client(self, accepts: str) -> tuple[bytes, str]:
        """Return the metrics in the format that an `Accept` header asks for, and their content type."""
        # Keep one text of each kind: a client must not choose versions, since each would be one more text.
        is_open = any(each.partition(";")[0].strip() == _OPEN_METRICS for each in accepts.split(","))
        encoder, content_type = choose_encoder(_OPEN_METRICS if is_open else "")
        with self._lock:
            at, text = self._made.get(content_type, (float("-inf"), b""))
            if self._clock() - at >= _FRESH_S:
                text = encoder(self._registry)
                self._made[content_type] = self._clock(), text
            return text, content_type

    def answer(self, request: Request) -> Response:
        """Answer a request for the metrics."""
        text, content_type = self.for_client(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": content_type})


class MetricsServer:
    """Serves `/metrics` on a port of the loopback address, until it is closed."""

    def __init__(self, port: int, text: MetricsText) -> None:
        """Listen on a port; 0 chooses a free one.

        Raises:
            ConfigError: The port cannot be used.
        """
        self._text = text
        self._server = HttpServer(place_of(HOST, port), "metrics")
        handlers: Any = {HTTPException: http_error}
        app = Starlette(routes=[Route("/metrics", self._answer)], exception_handlers=handlers)
        self._server.start(Guard(app, Access(host=HOST, is_loopback=True, token=None)))

    @property
    def address(self) -> str:
        """The address of the metrics, as `http://127.0.0.1:9095/metrics`."""
        return f"{self._server.address}metrics"

    def show(self, text: MetricsText) -> None:
        """Show these metrics from now on."""
        self._text = text

    def close(self) -> None:
        """Stop listening. May be called more than once."""
        self._server.close()

    async def _answer(self, request: Request) -> Response:
        return self._text.answer(request)
