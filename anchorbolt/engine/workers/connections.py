"""The connections of one process of a run, which a single thread serves."""

from __future__ import annotations

import queue
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from anchorbolt.engine.workers.frames import Frame
from anchorbolt.engine.workers.links import Link

P = TypeVar("P")


class Connections(Generic[P]):
    """The links of a process, with the peer of each. Not thread-safe, except `admit` and `wake`."""

    def __init__(self) -> None:
        self.peers: dict[Link, P] = {}
        self._behind: set[Link] = set()  # links with data that the system has not taken yet
        self._admitted: queue.SimpleQueue[tuple[socket.socket, bytes]] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        for each in (self._woken, self._waker):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    @property
    def bytes_waiting(self) -> int:
        """The bytes of all links that the system has not taken yet."""
        return sum(link.bytes_waiting for link in list(self._behind))

    def add(self, connection: socket.socket, peer: P) -> Link:
        link = Link(connection, self._behind)
        self.peers[link] = peer
        self._selector.register(connection, selectors.EVENT_READ, link)
        return link

    def remove(self, link: Link) -> None:
        """End a connection."""
        del self.peers[link]
        with suppress(KeyError, ValueError):
            self._selector.unregister(link.socket)
        link.close()

    def admit(self, connection: socket.socket, hello: bytes) -> None:
        """Keep a connection that a gate has admitted, and its hello, for `admitted`. May be called on any thread."""
        self._admitted.put((connection, hello))
        self.wake()

    def admitted(self) -> Iterator[tuple[socket.socket, bytes]]:
        """Yield the new connections, each with its hello."""
        while not self._admitted.empty():
            yield self._admitted.get()

    def wake(self) -> None:
        """Make `select` return. May be called on any thread."""
        with suppress(BlockingIOError, OSError):  # it is awake already, or has ended
            self._waker.send(b"\0")

    def watch(self) -> None:
        """Ask the system to tell the next `select` which links with waiting data can send again."""
        for link in list(self._behind):
            if link in self.peers:
                self._selector.modify(link.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, link)

    def select(self, timeout: float | None) -> list[tuple[Link, int]]:
        """Wait until a link is ready or `wake` is called; return the ready links, with their events for `move`."""
        ready: list[tuple[Link, int]] = []
        for key, events in self._selector.select(timeout):
            if key.data is not None:
                ready.append((key.data, events))
                continue
            with suppress(BlockingIOError):
                self._woken.recv(4096)
        return ready

    def move(self, link: Link, events: int) -> list[Frame]:
        """Send the data that wait, and return the frames that have arrived. Raises as `Link.receive`."""
        if events & selectors.EVENT_WRITE:
            link.flush()
            if not link.bytes_waiting:
                self._selector.modify(link.socket, selectors.EVENT_READ, link)
        return link.receive() if events & selectors.EVENT_READ else []

    def close(self) -> None:
        """End all connections, including the new ones that `admitted` has not yielded."""
        for link in list(self.peers):
            self.remove(link)
        for connection, _ in self.admitted():
            connection.close()
        self._selector.close()
        self._woken.close()
        self._waker.close()
