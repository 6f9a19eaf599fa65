"""A proxy on loopback that loses replies: the request arrives at the server, and the connection breaks."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def losing_replies(host: str, port: int, every: int) -> Iterator[int]:
    """Forward connections to a server, and close one in the place of each `every`th reply; gives the port."""
    replies = itertools.count(1)
    threads: list[threading.Thread] = []

    def requests(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((host, port)) as server:
            sender = threading.Thread(target=requests, args=(client, server))
            sender.start()
            with suppress(OSError):
                while data := server.recv(65536):
                    if next(replies) % every == 0:
                        break
                    client.sendall(data)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            sender.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join()
