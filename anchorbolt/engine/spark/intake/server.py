"""Listens on the driver for requests of its workers' tasks, which need data that a job's plan cannot hold."""

import hmac
import logging
import pickle
import secrets
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from socketserver import StreamRequestHandler

from pyspark.sql import SparkSession

from anchorbolt.checkpoint.ports import Round
from anchorbolt.config.masking import Masking
from anchorbolt.engine.sources.driver_spouts import DriverSpouts
from anchorbolt.engine.spark.intake.client import TIMEOUT_S, IntakeAddress, frame_of, read_frame
from anchorbolt.engine.task.messages import as_failure
from anchorbolt.engine.task.watchdog import LongCall, long_calls
from anchorbolt.engine.workers.gate import SECRET_BYTES, LimitedServer
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.state import Fence
from anchorbolt.transactional.batches.flights import BatchDriver
from anchorbolt.transactional.batches.metadata import LARGEST_METADATA

_log = logging.getLogger("anchorbolt.engine")

_NO_MASKING = Masking(())  # of errors for a task, which masks them in its report


_FRESH_S = 6.0
"""A worker reports a call every two seconds. A worker without a report for this long has ended."""


def driver_hosts(session: SparkSession) -> tuple[str, str]:
    """Return the address by which executors reach the driver, and the one at which it listens."""
    conf = session.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "localhost"
    return host, conf.get("spark.driver.bindAddress") or host


def cannot_listen(bind_to: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"the driver cannot listen on {bind_to!r} for its workers: {error}. Set spark.driver.bindAddress to an address "
        "of this machine, and spark.driver.host to the one by which workers reach it.",
        key="spark.driver.bindAddress",
    )


class WorkerServer(LimitedServer):
    """Answers requests of tasks, with a thread for each task that asks."""

    request_queue_size = 128
    most_connections = 500  # that have not sent the secret yet
    longest_s = TIMEOUT_S  # without the secret
    longest_request = 4096  # bytes

    def __init__(self, session: SparkSession) -> None:
        """Listen on a free port of the driver's address.

        Raises `ConfigError` if the machine does not have this address.
        """
        host, bind_to = driver_hosts(session)
        try:
            super().__init__((bind_to, 0), _Handler)
        except OSError as error:
            raise cannot_listen(bind_to, error) from error
        self.address = IntakeAddress(host, self.server_address[1], secrets.token_bytes(SECRET_BYTES))
        threading.Thread(target=self.serve_forever, name=f"anchorbolt-{type(self).__name__}", daemon=True).start()

    @abstractmethod
    def answers(self, request: bytes) -> Iterator[bytes]:
        """Yield the frames that answer a request. Called on the thread for the task that asks."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.end_connections()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the errors of lost tasks and of strangers: the round notices if a report is missing."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("a task's request from %s could not be answered", client_address)


class _Handler(StreamRequestHandler):
    server: WorkerServer
    timeout = TIMEOUT_S

    def handle(self) -> None:
        if not hmac.compare_digest(self.rfile.read(SECRET_BYTES), self.server.address.secret):
            return
        self.server.trust(self.connection)
        while request := read_frame(self.rfile, self.server.longest_request):
            for answer in self.server.answers(request):
                self.wfile.write(frame_of(answer))


class IntakeServer(WorkerServer):
    """Sends the intake of a wave to the tasks of rich spouts.

    The plan of a run's jobs is made once, and its first stage asks here for the emitted tuples. A DataFrame of each
    wave's tuples would take twice as long, and Spark would keep the tuples in its descriptions of tasks.
    """

    def __init__(self, session: SparkSession, spouts: DriverSpouts) -> None:
        self.spouts = spouts
        super().__init__(session)

    def answers(self, request: bytes) -> Iterator[bytes]:
        component, index = unpack(request)
        spouts = self.spouts
        if not component:  # the task that replays dead letters
            replays = spouts.replays.tasks() if spouts.replays is not None else ()
            yield pack([[task, [[*rows[:3]] for rows in each]] for task, each in replays])
            return
        assert spouts.rich is not None
        intake = spouts.rich.intake((component, index))
        yield pack([sorted(intake.excluded), intake.expired.tobytes(), dict(intake.moves)])
        for chunk, roots in intake.chunks:
            yield pack([chunk.stream, chunk.size, roots.tobytes(), spouts.rich.packed_ids(chunk)])
            yield chunk.payload
        yield b""


def call_server(session: SparkSession) -> "CallServer | None":
    """Return a server, or None if the driver cannot listen: then the run does not show its workers' long calls."""
    try:
        return CallServer(session)
    except ConfigError as error:
        _log.warning("calls of workers that do not return are not shown: %s", error)
        return None


def calls_everywhere(topology: str, server: "CallServer | None") -> Sequence[LongCall]:
    """Return the calls of this process and the workers that have lasted for over two seconds, longest first."""
    told = () if server is None else server.calls()
    return sorted([*long_calls(topology), *told], key=lambda each: -each.seconds)


class CallServer(WorkerServer):
    """Keeps the latest report of each worker."""

    longest_request = 1 << 20

    def __init__(self, session: SparkSession) -> None:
        self._lock = threading.Lock()
        self._told: dict[str, tuple[float, list[LongCall]]] = {}  # by worker: the time of its report, and the calls
        super().__init__(session)

    def answers(self, request: bytes) -> Iterator[bytes]:
        worker, calls = unpack(request)
        with self._lock:
            self._told.pop(worker, None)
            if calls:
                self._told[worker] = time.monotonic(), [LongCall(*call) for call in calls]
        yield from ()

    def calls(self) -> Sequence[LongCall]:
        """Return the latest unfinished call of each task, as the workers reported.

        A worker that was killed reports nothing any more, and another worker may run its task.
        """
        with self._lock:
            now = time.monotonic()
            self._told = {worker: told for worker, told in self._told.items() if now - told[0] < _FRESH_S}
            by_time = sorted(self._told.values(), key=lambda told: told[0])
            latest = {
                call[:3]: call._replace(seconds=call.seconds + now - at) for at, calls in by_time for call in calls
            }
            return list(latest.values())


class BatchServer(WorkerServer):
    """Answers requests of emitters' tasks to the driver's pipeline."""

    longest_request = LARGEST_METADATA + (1 << 20)

    def __init__(self, session: SparkSession, driver: BatchDriver) -> None:
        self._driver = driver
        super().__init__(session)

    def answers(self, request: bytes) -> Iterator[bytes]:
        component, index, txid, generation, seq, told = unpack(request)
        current, task = Round(txid, Fence(generation, seq)), (component, index)
        try:
            if told is None:
                yield pack([True, [list(start) for start in self._driver.partitions(current, task)]])
            else:
                self._driver.tell(current, task, told)
                yield pack([True, None])
        except AnchorboltError as error:
            yield pack([False, pickle.dumps(as_failure(error, txid, _NO_MASKING))])
