"""The driver's side of long calls on Spark: keeps what workers tell of calls that have not returned."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from anchorbolt.engine.spark.intake.worker_server import WorkerServer
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.errors import ConfigError
from anchorbolt.serialization import unpack

_log = logging.getLogger("anchorbolt.engine")

_FRESH_S = 6.0
"""A worker tells of a call every two seconds. One that has not told for so long has ended."""


def call_server(session: SparkSession) -> "CallServer | None":
    """Return a server, or None if the driver cannot listen: then a run does not tell of its workers' long calls."""
    try:
        return CallServer(session)
    except ConfigError as error:
        _log.warning("calls of workers that do not return are not shown: %s", error)
        return None


class CallServer(WorkerServer):
    """Keeps the latest that each worker has told."""

    longest_request = 1 << 20

    def __init__(self, session: SparkSession) -> None:
        self._lock = threading.Lock()
        self._told: dict[str, tuple[float, list[LongCall]]] = {}  # by worker: when it told, and the calls
        super().__init__(session)

    def answers(self, request: bytes) -> Iterator[bytes]:
        worker, calls = unpack(request)
        with self._lock:
            self._told.pop(worker, None)
            if calls:
                self._told[worker] = time.monotonic(), [LongCall(*call) for call in calls]
        yield from ()

    def calls(self) -> Sequence[LongCall]:
        """Return the latest call of each task that has not returned, as the workers told.

        A worker that is killed tells nothing any more, and another one may run its task.
        """
        with self._lock:
            now = time.monotonic()
            self._told = {worker: told for worker, told in self._told.items() if now - told[0] < _FRESH_S}
            by_time = sorted(self._told.values(), key=lambda told: told[0])
            latest = {
                call[:3]: call._replace(seconds=call.seconds + now - at) for at, calls in by_time for call in calls
            }
            return list(latest.values())
