"""The worker's side of the intake: a task of a rich spout asks the driver for what the spout emitted."""

import socket
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from io import BufferedIOBase
from typing import NamedTuple

import numpy as np

from anchorbolt.acker.sorted_roots import Roots
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.task.spout_task import SourceRows
from anchorbolt.errors import SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.intake import Chunk

TIMEOUT_S = 30.0  # the longest time that one side waits for the other
_LONGEST_FRAME = (1 << 31) - 1


class IntakeAddress(NamedTuple):
    """Where the driver listens, and the secret that a task shows. Pickled to the tasks."""

    host: str
    port: int
    secret: bytes

    def __repr__(self) -> str:
        return f"IntakeAddress({self.host}:{self.port})"


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
        socket.create_connection((address.host, address.port), timeout=TIMEOUT_S) as connection,
        connection.makefile("rb") as file,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(address.secret + frame_of(pack(list(task))))
        excluded, expired, moves = unpack(read_frame(file, _LONGEST_FRAME))
        yield AskedIntake(_rows(file), frozenset(excluded), np.frombuffer(expired, np.uint64), moves)


def asked_replays(address: IntakeAddress) -> list[tuple[TaskKey, list[SourceRows]]]:
    """Ask the driver for the dead letters that the current wave processes again. Raises the same errors."""
    with (
        socket.create_connection((address.host, address.port), timeout=TIMEOUT_S) as connection,
        connection.makefile("rb") as file,
    ):
        connection.sendall(address.secret + frame_of(pack(["", 0])))
        replays = unpack(read_frame(file, _LONGEST_FRAME))
        return [((component, index), [SourceRows(*rows) for rows in each]) for (component, index), each in replays]


def _rows(file: BufferedIOBase) -> Iterator[SourceRows]:
    while head := read_frame(file, _LONGEST_FRAME):
        stream, size, roots, msg_ids = unpack(head)
        columns = Chunk(stream, size, read_frame(file, _LONGEST_FRAME), ()).columns()
        yield SourceRows(stream, size, columns, np.frombuffer(roots, np.uint64), msg_ids)


def frame_of(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def read_frame(file: BufferedIOBase, longest: int) -> bytes:
    size = file.read(4)
    length = int.from_bytes(size, "big")
    if length > longest:
        raise SerializationError(f"a frame of {length} bytes was announced; the longest is {longest}")
    data = file.read(length)
    if len(size) < 4 or len(data) < length:
        raise ConnectionError("the other side has closed the connection")
    return data
