"""Shows the metrics of a run to Prometheus, over HTTP on this machine's loopback address."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from anchorbolt.errors import ConfigError
from anchorbolt.util.limited_server import LimitedServer
from anchorbolt.util.loopback import LOOPBACK_NAMES, name_of

HOST = "127.0.0.1"
_FRESH_S = 1.0
_TIMEOUT_S = 10.0  # for a client to send its request and to take the answer


class MetricsText:
    """What a collector shows, made anew at most once a second: many scrapes cost as much as one. Thread-safe."""

    def __init__(self, collector: Collector, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, tuple[float, bytes]] = {}  # by type of content

    def for_client(self, accepts: str) -> tuple[bytes, str]:
        """Return the metrics in the format that an `Accept` header asks for, and the type of the content."""
        encoder, content_type = choose_encoder(accepts)
        with self._lock:
            at, text = self._made.get(content_type, (float("-inf"), b""))
            if self._clock() - at >= _FRESH_S:
                text = encoder(self._registry)
                self._made[content_type] = self._clock(), text
            return text, content_type


class MetricsServer:
    """Serves `/metrics` on a port of the loopback address, on threads of its own, until it is closed."""

    def __init__(self, port: int, text: MetricsText) -> None:
        """Listen on a port; 0 chooses a free one.

        Raises:
            ConfigError: The port cannot be used.
        """

        class Handler(_Handler):
            metrics = text

        self._handler = Handler
        try:
            self._server = _Server((HOST, port), Handler)
        except OSError as error:
            raise ConfigError(
                f"the metrics cannot be shown on port {port}: {error.strerror}. Set topology.metrics.port, or "
                "--metrics-port, to a port that is free.",
                key="topology.metrics.port",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="anchorbolt-metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the metrics, as `http://127.0.0.1:9095/metrics`."""
        return f"http://{HOST}:{self._server.server_port}/metrics"

    def show(self, text: MetricsText) -> None:
        """Show these metrics from now on."""
        self._handler.metrics = text

    def close(self) -> None:
        """Stop listening. May be called more than once."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(LimitedServer, HTTPServer):
    request_queue_size = 1024
    longest_s = _TIMEOUT_S

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is not an event."""


class _Handler(BaseHTTPRequestHandler):
    metrics: MetricsText
    timeout = _TIMEOUT_S
    disable_nagle_algorithm = True  # else the text waits for the client's ACK of the headers
    server_version = "anchorbolt"
    sys_version = ""

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or name_of(hosts[0]) not in LOOPBACK_NAMES:
            self.send_error(421, "this server answers for localhost and 127.0.0.1 only")
            return
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics is here")
            return
        text, content_type = self.metrics.for_client(self.headers.get("Accept", ""))
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a scrape is not an event."""
