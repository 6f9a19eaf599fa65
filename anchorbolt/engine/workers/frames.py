"""The frames between the driver, the workers and the tasks of a stream spout. Pure."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from anchorbolt.errors import SerializationError

HEAD = struct.Struct("!IBQHI")  # size of the payload, kind, round, level, destination
LONGEST_FRAME = 1 << 30


class Kind(IntEnum):
    """The kinds of frames, with their payloads; a payload that is not named is empty."""

    HELLO = 0  # the first frame of a connection: packed [role, …], see `links`
    # From the driver to a worker.
    TABLE = 1  # packed [number of the table, [[slot, incarnation, host, port], …]]
    ROUND = 2  # packed [phase, text of the round, sources]
    EXPECT = 3  # packed number of the blobs that other processes have sent to the worker's tasks of this level
    ABORT = 4  # the round was given up
    HANDLE = 5  # pickled (phase, checkpoint tuple, tasks, text of the round)
    COMMIT = 6  # pickled (phase, group, threads, text of the round)
    STOP = 7  # the run has ended
    # From a worker to the driver.
    ENDED = 8  # packed [[[level, slot, blobs sent], …], [[component, index, tuples executed], …], [report, …]]
    LOST = 9  # packed [slot of the worker that cannot be reached, reason]; of this round and all before, see `_take`
    ANSWER = 10  # pickled answer to HANDLE or COMMIT: a failure or None; the reports
    PULSE = 11  # packed figures of the worker, every second
    # From the driver to a worker, and from a worker to the driver.
    SPOUT = 12  # pickled, see `hosted_spouts`
    # To a worker, from another one or from a task of a stream spout.
    BLOB = 13


class Frame(NamedTuple):
    """A frame. `round` is the fleet's own number of a round or request, which never repeats in a run."""

    kind: Kind
    round: int = 0
    level: int = 0
    destination: int = 0
    payload: bytes = b""

    def encoded(self) -> bytes:
        kind, number, level, destination, payload = self
        return HEAD.pack(len(payload), kind, number, level, destination) + payload


class Frames:
    """Cuts the bytes of a connection into frames."""

    def __init__(self, longest: int = LONGEST_FRAME) -> None:
        self.longest = longest  # bytes of a payload
        self._bytes = bytearray()

    @property
    def is_cut(self) -> bool:
        """Whether a part of a frame has arrived, but not all of it."""
        return bool(self._bytes)

    def add(self, data: bytes) -> list[Frame]:
        """Take bytes; return the frames that are complete. Raises `SerializationError` for bytes that are no frame."""
        self._bytes += data
        held, at, frames = self._bytes, 0, []
        while len(held) - at >= HEAD.size:
            size, kind, number, level, destination = HEAD.unpack_from(held, at)
            if size > self.longest or kind > Kind.BLOB:
                raise SerializationError(
                    f"a frame of kind {kind} with {size} bytes was announced; the longest is {self.longest}"
                )
            end = at + HEAD.size + size
            if len(held) < end:
                break
            with memoryview(held) as view:
                payload = bytes(view[at + HEAD.size : end])
            frames.append(Frame(Kind(kind), number, level, destination, payload))
            at = end
        if at:
            del held[:at]
        return frames
