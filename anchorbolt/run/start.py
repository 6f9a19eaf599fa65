"""A run that is starting: its waits and its metrics, from before Spark is started."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from anchorbolt.config.settings import Settings
from anchorbolt.engine.driver.store_watch import PATIENCE_S
from anchorbolt.errors import StateUnavailable
from anchorbolt.util.retry import RetryPolicy

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from anchorbolt.observe.web.metrics import MetricsServer

STATUSES = ("running", "stopped", "finished", "failed")


class RunStart:
    """Shows the start of one run, which may wait for its store. Ends with the run."""

    def __init__(self, topology: str, settings: Settings, on_recovery: Callable[[Any], object] | None = None) -> None:
        """Show the metrics, if `topology.metrics.port` is set.

        Args:
            topology: The topology's name.
            settings: The run's settings.
            on_recovery: Called with the run's handle before it recovers, which may wait for the store.

        Raises:
            ConfigError: The port of the metrics cannot be used.
        """
        self.topology = topology
        self.retry = RetryPolicy(settings.message_timeout_secs * 1000)
        self.on_recovery = on_recovery
        self._asked_at: float | None = None  # `time.monotonic` of a call that the store has not answered
        self._server: MetricsServer | None = None
        if settings.metrics_port is not None:
            from anchorbolt.observe.web.metrics import MetricsServer, MetricsText

            self._server = MetricsServer(settings.metrics_port, MetricsText(self.collector()))

    @property
    def waiting(self) -> Mapping[str, float]:
        """The current waits of the start, such as for the store, in seconds."""
        asked_at = self._asked_at
        waited = 0.0 if asked_at is None else time.monotonic() - asked_at
        return {**({StateUnavailable.waits_for: waited} if waited > PATIENCE_S else {}), **self.retry.waiting}

    def ask_store(self, call: Callable[[], object]) -> None:
        """Call the store, which answers in milliseconds if it is there. Raises `StateUnavailable` after the deadline.

        A client library repeats a call for seconds before it fails: `waiting` includes this time.
        """
        self._asked_at = time.monotonic()
        try:
            self.retry.until_available(call)
        finally:
            self._asked_at = None

    @property
    def metrics_address(self) -> str | None:
        """The address of the metrics; None without `topology.metrics.port`."""
        return None if self._server is None else self._server.address

    def collector(self) -> Collector:
        """Return a collector of the metrics of a run that starts."""
        from anchorbolt.observe.figures.collector import StartCollector

        return StartCollector(self.topology, STATUSES, lambda: self.waiting)

    def show(self, handle: Any) -> None:
        """Show the metrics of a run from now on, by its `RunHandle`. Called before the run recovers."""
        if self._server is not None:
            from anchorbolt.observe.web.metrics import MetricsText

            self._server.show(MetricsText(handle.collector()))
        if self.on_recovery is not None:
            self.on_recovery(handle)

    def close(self) -> None:
        """Stop showing the start. May be called more than once."""
        if self._server is not None:
            self._server.close()
