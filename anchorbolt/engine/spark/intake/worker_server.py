"""Listens on the driver for its workers' tasks, which ask over a socket what no plan of a job can hold."""

import hmac
import logging
import secrets
import sys
import threading
from abc import abstractmethod
from collections.abc import Iterator
from socketserver import StreamRequestHandler

from pyspark.sql import SparkSession

from anchorbolt.engine.spark.intake.client import TIMEOUT_S, IntakeAddress, frame_of, read_frame
from anchorbolt.errors import ConfigError
from anchorbolt.util.limited_server import LimitedServer

_log = logging.getLogger("anchorbolt.engine")

_SECRET_BYTES = 32


class WorkerServer(LimitedServer):
    """Answers requests of tasks, with a thread for each task that asks."""

    request_queue_size = 128
    most_connections = 500  # that have not shown the secret yet
    longest_s = TIMEOUT_S  # without the secret
    longest_request = 4096  # bytes

    def __init__(self, session: SparkSession) -> None:
        """Listen on a free port of the driver's address.

        Raises `ConfigError` if the machine does not have this address.
        """
        conf = session.sparkContext.getConf()
        host = conf.get("spark.driver.host") or "localhost"
        bind_to = conf.get("spark.driver.bindAddress") or host
        try:
            super().__init__((bind_to, 0), _Handler)
        except OSError as error:
            raise ConfigError(
                f"the driver cannot listen on {bind_to!r} for its workers: {error}. Set spark.driver.bindAddress to an "
                "address of this machine, and spark.driver.host to the one by which workers reach it.",
                key="spark.driver.bindAddress",
            ) from error
        self.address = IntakeAddress(host, self.server_address[1], secrets.token_bytes(_SECRET_BYTES))
        threading.Thread(target=self.serve_forever, name=f"anchorbolt-{type(self).__name__}", daemon=True).start()

    @abstractmethod
    def answers(self, request: bytes) -> Iterator[bytes]:
        """Yield the frames that answer a request. Called on a thread of the task that asks."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.end_connections()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a task that is gone, or a stranger: the round finds out if something is missing."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("a task's request from %s could not be answered", client_address)


class _Handler(StreamRequestHandler):
    server: WorkerServer
    timeout = TIMEOUT_S

    def handle(self) -> None:
        if not hmac.compare_digest(self.rfile.read(_SECRET_BYTES), self.server.address.secret):
            return
        self.server.trust(self.connection)
        while request := read_frame(self.rfile, self.server.longest_request):
            for answer in self.server.answers(request):
                self.wfile.write(frame_of(answer))
