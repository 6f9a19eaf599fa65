"""How long Redis may take for an answer, to its last byte, and for all answers to one call.

redis-py alone bounds each read of a socket, so that a server or a network that lets through a byte now and then holds a
call for as long as it likes; and it asks all servers of a cluster, one after another, where the keys are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis.connection import DefaultParser

# A large answer may take longer, if it comes at this rate at least.
_LEAST_BYTES_PER_S = 1 << 20
# Not 0, by which a socket does not wait at all and raises another error.
_NO_TIME_S = 0.001

_Parser: Any = DefaultParser


class _Call(threading.local):
    """The call that this thread is in.

    Attributes:
        until: When its answers have to be there, by `time.monotonic`; None outside any call.
    """

    until: float | None = None


_call = _Call()


@contextmanager
def bounded_call(seconds: float) -> Iterator[None]:
    """Let all answers that this thread waits for within the context have so much time together.

    For each MiB that comes they have a second more.
    """
    before, _call.until = _call.until, time.monotonic() + seconds
    try:
        yield
    finally:
        _call.until = before


def bound_answers(connection: Any) -> None:
    """Let each answer on a connection of redis-py have its `socket_timeout`, and a second more for each MiB.

    To be called before the connection is set up.
    """
    connection.set_parser(_BoundedParser)


def connect_with_bounds(connection: Any) -> None:
    """Set up a connection whose answers are bounded: the `redis_connect_func` of a client."""
    bound_answers(connection)
    connection.on_connect()


class _BoundedParser(_Parser):  # type: ignore[misc]  # (one class or another, and untyped)
    def on_connect(self, connection: Any, **more: Any) -> None:
        own = connection._sock
        self._reads = connection._sock = _BoundedReads(own, connection.socket_timeout)
        try:
            super().on_connect(connection, **more)  # which keeps the socket to read from
        finally:
            connection._sock = own

    def read_response(self, *args: Any, **kwargs: Any) -> Any:
        self._reads.until = None
        return super().read_response(*args, **kwargs)


class _BoundedReads:
    """A socket, as far as a parser needs one.

    Attributes:
        until: When the answer that is being read has to be there; None before its first read.
    """

    def __init__(self, sock: Any, timeout_s: float) -> None:
        self.until: float | None = None
        self._socket = sock
        self._timeout_s = timeout_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv_into(self, buffer: bytearray) -> int:
        count: int = self._in_time(self._socket.recv_into, buffer)
        self._received(count)
        return count

    def recv(self, size: int, flags: int = 0) -> bytes:
        if flags:  # a look at whether it is still open, which waits for nothing
            seen: bytes = self._socket.recv(size, flags)
            return seen
        data: bytes = self._in_time(self._socket.recv, size)
        self._received(len(data))
        return data

    def _in_time(self, receive: Callable[[Any], Any], argument: Any) -> Any:
        now = time.monotonic()
        begins = self.until is None
        if self.until is None:
            self.until = now + self._timeout_s
        until = self.until if _call.until is None else min(self.until, _call.until)
        if begins and until == self.until:  # as most often; the socket itself allows no more
            return receive(argument)
        self._socket.settimeout(max(until - now, _NO_TIME_S))
        try:
            return receive(argument)
        finally:
            self._socket.settimeout(self._timeout_s)

    def _received(self, count: int) -> None:
        assert self.until is not None
        self.until += count / _LEAST_BYTES_PER_S
        if _call.until is not None:
            _call.until += count / _LEAST_BYTES_PER_S
