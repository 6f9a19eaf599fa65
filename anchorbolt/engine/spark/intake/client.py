"""The worker's side of the driver's servers: tasks ask for tuples and metadata, and report calls that last long."""

import logging
import os
import pickle
import socket
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.task.spout_task import SourceRows
from anchorbolt.engine.task.watchdog import LongCall, tell_long_calls
from anchorbolt.errors import AnchorboltError, InfrastructureLost, SerializationError
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.intake import Chunk
from anchorbolt.tracking.sorted_roots import Roots
from anchorbolt.transactional.batches.flights import PartitionStart, Told

TIMEOUT_S = 30.0  # the longest time that one side waits for the other
_LONGEST_FRAME = (1 << 31) - 1


_log = logging.getLogger("anchorbolt.engine")

_TIMEOUT_S = 2.0


class IntakeAddress(NamedTuple):
    """The address at which the driver listens, and the secret that a task must send. Pickled to the tasks."""

    host: str
    port: int
    secret: bytes

    def __repr__(self) -> str:
        return f"IntakeAddress({self.host}:{self.port})"


class AskedIntake(NamedTuple):
    """The data that a task sends, see `TaskIntake`."""

    rows: Iterator[SourceRows]
    excluded: Set[int]
    expired: Roots
    moves: Mapping[int, bytes]


@contextmanager
def asked_intake(address: IntakeAddress, task: TaskKey, txid: int) -> Iterator[AskedIntake]:
    """Ask the driver for the intake of a task. Called on a worker.

    Raises `InfrastructureLost` if the driver cannot be reached or does not answer, and `SerializationError`; iterating
    over the rows raises the same.
    """
    with asked(address, list(task), txid) as file:
        excluded, expired, moves = unpack(answer(address, file, txid))
        yield AskedIntake(_rows(address, file, txid), frozenset(excluded), np.frombuffer(expired, np.uint64), moves)


def asked_replays(address: IntakeAddress, txid: int) -> list[tuple[TaskKey, list[SourceRows]]]:
    """Ask the driver for the dead letters that the current wave replays. Raises the errors of `asked_intake`."""
    with asked(address, ["", 0], txid) as file:
        replays = unpack(answer(address, file, txid))
    return [((component, index), [SourceRows(*rows) for rows in each]) for (component, index), each in replays]


@contextmanager
def asked(address: IntakeAddress, request: list[Any], txid: int) -> Iterator[BufferedIOBase]:
    """Send a request to the driver; yield the file with its answers. Raises `InfrastructureLost`."""
    with _connected(address, request, txid) as (_, file):
        yield file


@contextmanager
def _connected(address: IntakeAddress, request: list[Any], txid: int) -> Iterator[tuple[socket.socket, BufferedIOBase]]:
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(socket.create_connection((address.host, address.port), timeout=TIMEOUT_S))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(address.secret + frame_of(pack(request)))
        except OSError as error:
            raise _lost(address, error, txid) from error
        yield connection, stack.enter_context(connection.makefile("rb"))


def _rows(address: IntakeAddress, file: BufferedIOBase, txid: int) -> Iterator[SourceRows]:
    while head := answer(address, file, txid):
        stream, size, roots, msg_ids = unpack(head)
        columns = Chunk(stream, size, answer(address, file, txid), (), 0.0).columns()
        yield SourceRows(stream, size, columns, np.frombuffer(roots, np.uint64), msg_ids)


def answer(address: IntakeAddress, file: BufferedIOBase, txid: int) -> bytes:
    """Read the next answer. Raises `InfrastructureLost` if the driver does not answer."""
    try:
        return read_frame(file, _LONGEST_FRAME)
    except OSError as error:
        raise _lost(address, error, txid) from error


def _lost(address: IntakeAddress, error: OSError, txid: int) -> InfrastructureLost:
    return InfrastructureLost(
        f"a worker did not get its tuples from the driver at {address.host}:{address.port}: {error}. If that goes on, "
        "see whether the workers can reach spark.driver.host.",
        txid=txid,
    )


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


def report_long_calls(address: IntakeAddress | None) -> None:
    """Report long calls of this process to the driver at `address` from now on; None stops the reports."""
    tell_long_calls(None if address is None else partial(_tell, address))


def _tell(address: IntakeAddress, calls: Sequence[LongCall]) -> None:
    """Send the calls; an empty list means that all have returned. Does nothing if the driver cannot be reached."""
    request = pack([f"{socket.gethostname()}-{os.getpid()}", [list(call) for call in calls]])
    try:
        with socket.create_connection((address.host, address.port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(address.secret + frame_of(request))
    except OSError as error:
        _log.debug("the driver was not told of calls that have not returned: %s", error)


class AskedBatchDriver:
    """`BatchDriver` on a worker. One that is `kept` for the run keeps its connections; may be used on any thread."""

    def __init__(self, address: IntakeAddress, *, kept: bool = False) -> None:
        self._address = address
        self._kept = kept
        self._idle: list[tuple[ExitStack, BufferedIOBase, socket.socket]] = []

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        return [PartitionStart(*start) for start in self._ask(current, task, None)]

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        self._ask(current, task, dict(told))

    def close(self) -> None:
        for stack, *_ in self._idle:
            stack.close()

    def _ask(self, current: Round, task: TaskKey, told: dict[int, bytes | None] | None) -> Any:
        request = [*task, current.txid, *current.fence, told]
        is_done, content = unpack(self._answer(request, current.txid))
        if not is_done:
            error: AnchorboltError = pickle.loads(content)  # noqa: S301 - made by the driver of this run
            raise error
        return content

    def _answer(self, request: list[Any], txid: int) -> bytes:
        while self._idle:  # the driver ends a connection that was idle for long: then a new one is opened
            stack, file, connection = self._idle.pop()
            try:
                connection.sendall(frame_of(pack(request)))
                found = read_frame(file, _LONGEST_FRAME)
            except OSError:
                stack.close()
                continue
            self._idle.append((stack, file, connection))
            return found
        with ExitStack() as stack:
            connection, file = stack.enter_context(_connected(self._address, request, txid))
            found = answer(self._address, file, txid)
            if self._kept:
                self._idle.append((stack.pop_all(), file, connection))
        return found
