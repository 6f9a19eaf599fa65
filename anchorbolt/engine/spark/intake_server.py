"""Brings the intake of a wave from the driver to the tasks of rich spouts on Spark, over a socket.

The plan of a run's jobs is made once, and its first stage asks here for what the spouts emitted. To make a DataFrame of
each wave's tuples takes twice as long, and keeps them in Spark's descriptions of tasks.
"""

import hmac
import logging
import secrets
import sys
import threading
from socketserver import StreamRequestHandler, ThreadingTCPServer

from anchorbolt.engine.spark.intake_client import TIMEOUT_S, IntakeAddress, frame_of, read_frame
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.serialization import pack, unpack

_log = logging.getLogger("anchorbolt.engine")

_SECRET_BYTES = 32
_LONGEST_REQUEST = 4096


class IntakeServer(ThreadingTCPServer):
    """Listens on the driver, with a thread for each task that asks."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, spouts: DriverSpouts) -> None:
        """Listen on a free port of `host`."""
        self.spouts = spouts
        super().__init__((host, 0), _Handler)
        self.address = IntakeAddress(host, self.server_address[1], secrets.token_bytes(_SECRET_BYTES))
        threading.Thread(target=self.serve_forever, name="anchorbolt-intake", daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a task that is gone, or a stranger: the round finds out if something is missing."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("the intake could not be sent to %s", client_address)


class _Handler(StreamRequestHandler):
    server: IntakeServer
    timeout = TIMEOUT_S

    def handle(self) -> None:
        if not hmac.compare_digest(self.rfile.read(_SECRET_BYTES), self.server.address.secret):
            return
        while request := read_frame(self.rfile, _LONGEST_REQUEST):
            component, index = unpack(request)
            spouts = self.server.spouts
            if not component:  # the tasks that emit dead letters again
                replays = spouts.replays.rows() if spouts.replays is not None else ()
                plain = [[task, [[*rows[:3]] for rows in each]] for task, each in replays]
                self.wfile.write(frame_of(pack(plain)))
                continue
            assert spouts.rich is not None
            intake = spouts.rich.intake((component, index))
            self.wfile.write(frame_of(pack([sorted(intake.excluded), intake.expired.tobytes(), dict(intake.moves)])))
            for chunk, roots in intake.chunks:
                self.wfile.write(
                    frame_of(pack([chunk.stream, chunk.size, roots.tobytes(), spouts.rich.packed_ids(chunk)]))
                )
                self.wfile.write(frame_of(chunk.payload))
            self.wfile.write(frame_of(b""))
