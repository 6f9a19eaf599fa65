"""Brings the intake of a wave from the driver to the tasks of rich spouts on Spark, over a socket.

The plan of a run's jobs is made once, and its first stage asks here for what the spouts emitted. To make a DataFrame of
each wave's tuples takes twice as long, and keeps them in Spark's descriptions of tasks.
"""

import hmac
import logging
import secrets
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from io import BufferedIOBase
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import NamedTuple

import numpy as np

from anchorbolt.acker.sorted_roots import Roots
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.task.spout_task import SourceRows
from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.intake import Chunk

_log = logging.getLogger("anchorbolt.engine")

_SECONDS = 30.0  # the longest time that one side waits for the other
_SECRET_BYTES = 32
_LONGEST_REQUEST = 4096
_LONGEST_FRAME = (1 << 31) - 1


class IntakeAddress(NamedTuple):
    """Where the driver listens, and the secret that a task shows. Pickled to the tasks."""

    host: str
    port: int
    secret: bytes

    def __repr__(self) -> str:
        return f"IntakeAddress({self.host}:{self.port})"


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
    timeout = _SECONDS

    def handle(self) -> None:
        if not hmac.compare_digest(self.rfile.read(_SECRET_BYTES), self.server.address.secret):
            return
        while request := _read_frame(self.rfile, _LONGEST_REQUEST):
            component, index = unpack(request)
            spouts = self.server.spouts
            if not component:  # the tasks that emit dead letters again
                replays = spouts.replays.rows() if spouts.replays is not None else ()
                plain = [[task, [[*rows[:3]] for rows in each]] for task, each in replays]
                self.wfile.write(_frame(pack(plain)))
                continue
            assert spouts.rich is not None
            intake = spouts.rich.intake((component, index))
            self.wfile.write(_frame(pack([sorted(intake.excluded), intake.expired.tobytes(), dict(intake.moves)])))
            for chunk, roots in intake.chunks:
                self.wfile.write(
                    _frame(pack([chunk.stream, chunk.size, roots.tobytes(), spouts.rich.packed_ids(chunk)]))
                )
                self.wfile.write(_frame(chunk.payload))
            self.wfile.write(_frame(b""))


class AskedIntake(NamedTuple):
    """What a task has to send, see `TaskIntake`."""

    rows: Iterator[SourceRows]
    excluded: Set[int]
    expired: Roots
    moves: Mapping[int, bytes]


@contextmanager
def asked_intake(address: IntakeAddress, task: TaskKey) -> Iterator[AskedIntake]:
    """Ask the driver for the intake of a task. Called on a worker.

    Raises `OSError` if the driver cannot be reached or does not answer, and `SerializationError`; so do the rows.
    """
    with (
        socket.create_connection((address.host, address.port), timeout=_SECONDS) as connection,
        connection.makefile("rb") as file,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(address.secret + _frame(pack(list(task))))
        excluded, expired, moves = unpack(_read_frame(file, _LONGEST_FRAME))
        yield AskedIntake(_rows(file), frozenset(excluded), np.frombuffer(expired, np.uint64), moves)


def asked_replays(address: IntakeAddress) -> list[tuple[TaskKey, list[SourceRows]]]:
    """Ask the driver for the dead letters that the current wave processes again. Raises the same errors."""
    with (
        socket.create_connection((address.host, address.port), timeout=_SECONDS) as connection,
        connection.makefile("rb") as file,
    ):
        connection.sendall(address.secret + _frame(pack(["", 0])))
        replays = unpack(_read_frame(file, _LONGEST_FRAME))
        return [((component, index), [SourceRows(*rows) for rows in each]) for (component, index), each in replays]


def _rows(file: BufferedIOBase) -> Iterator[SourceRows]:
    while head := _read_frame(file, _LONGEST_FRAME):
        stream, size, roots, msg_ids = unpack(head)
        columns = Chunk(stream, size, _read_frame(file, _LONGEST_FRAME), ()).columns()
        yield SourceRows(stream, size, columns, np.frombuffer(roots, np.uint64), msg_ids)


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _read_frame(file: BufferedIOBase, longest: int) -> bytes:
    size = file.read(4)
    length = int.from_bytes(size, "big")
    if length > longest:
        raise SerializationError(f"a frame of {length} bytes was announced; the longest is {longest}")
    data = file.read(length)
    if len(size) < 4 or len(data) < length:
        raise ConnectionError("the other side has closed the connection")
    return data
