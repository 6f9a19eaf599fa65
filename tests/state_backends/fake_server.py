"""A server on loopback that gives one answer to whatever it is sent, or none."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """Answer each packet that comes with `reply`, which may be empty. Gives the port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while self.request.recv(65536):
                    self.request.sendall(reply)
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
            server.shutdown()
            thread.join()
