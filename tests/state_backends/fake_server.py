"""A server on loopback that gives one answer to whatever it is sent, or none, or byte by byte."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def answering(reply: bytes, *, at_once: int = 1 << 20, pause_s: float = 0.0) -> Iterator[int]:
    """Answer each packet that comes with `reply`, some bytes at once, then a pause; it may be empty. Gives the port."""
    ended = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while self.request.recv(65536):
                    for start in range(0, len(reply), at_once):
                        self.request.sendall(reply[start : start + at_once])
                        ended.wait(pause_s)
            except ConnectionError:
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            ended.set()
            server.shutdown()
            thread.join()
