"""TCP proxies in front of workers, which do to the traffic between them what a test says."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from anchorbolt.engine.workers.frames import HEAD, Frames, Kind

_PROOF = 64  # bytes that a client sends before its first frame
_CHUNK = 1 << 16


class Network:
    """The connections between the workers of a run.

    Attributes:
        fault: Done to bytes from one worker to another: `""` for none; `reset`; `drop`, take the bytes and lose them;
            `stall`, take no more bytes; `slow`, a thousand bytes a second. Or done once, to the next blob, and then
            forgotten: `half`, `replay`, `garbage`.
        done: How often each fault was done.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.done: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._registry = _Registry(self)
        self.address: tuple[str, int] = ("127.0.0.1", self._registry.server_address[1])
        threading.Thread(target=self._registry.serve_forever, args=(0.1,), daemon=True).start()

    def begin(self, fault: str) -> None:
        self.fault = fault
        if fault == "reset":
            self._cut()

    def end(self) -> None:
        """The network is well again. Connections that have lost bytes are ended."""
        lost, self.fault = self.fault, ""
        if lost in ("drop", "stall"):
            self._cut()

    def close(self) -> None:
        self._registry.shutdown()
        self._registry.server_close()
        with self._lock:
            listeners = self._registry.listeners
        for each in listeners:
            each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._cut()

    def proxied(self, port: int) -> int:
        """Listen on a new port for a worker's port."""
        listener = socket.create_server(("127.0.0.1", 0))
        with self._lock:
            self._registry.listeners.append(listener)
        threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket, port: int) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", port))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open += [client, server]
                threading.Thread(target=self._pass_back, args=(server, client), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _cut(self) -> None:
        with self._lock:
            ended, self._open = self._open, []
        for each in ended:
            _reset(each)

    def _pass_back(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                target.sendall(data)
        _end(target)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """Pass on what a worker sends to another one, frame by frame."""
        frames, begun = Frames(), b""
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if len(begun) < _PROOF:
                    missing = _PROOF - len(begun)
                    begun, part, data = begun + data[:missing], data[:missing], data[missing:]
                    target.sendall(part)
                for frame in frames.add(data):
                    self._pass(frame.encoded(), frame.kind is Kind.BLOB, source, target)
        _end(target)

    def _pass(self, data: bytes, is_blob: bool, source: socket.socket, target: socket.socket) -> None:
        fault = self.fault
        if fault in ("half", "replay", "garbage"):
            if not is_blob:
                fault = ""
            else:
                self.fault = ""
        if fault:
            self.done[fault] += 1
        if fault == "reset":
            _reset(source)
            _reset(target)
        elif fault == "stall":
            while self.fault == "stall":
                time.sleep(0.01)
            target.sendall(data)
        elif fault == "slow":
            for start in range(0, len(data), 100):
                target.sendall(data[start : start + 100])
                if self.fault == "slow":
                    time.sleep(0.1)
        elif fault == "half":
            target.sendall(data[: len(data) // 2])
            _end(target)
            _end(source)
        elif fault == "garbage":
            target.sendall(HEAD.pack(7, 250, 1, 1, 1) + b"garbage" * 100)
        elif fault != "drop":
            target.sendall(data * 2 if fault == "replay" else data)


class _Registry(ThreadingTCPServer):
    """Tells a worker the port of its proxy."""

    daemon_threads = True

    def __init__(self, network: Network) -> None:
        self.network = network
        self.listeners: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(StreamRequestHandler):
    server: Any

    def handle(self) -> None:
        _, port = self.rfile.readline().split()
        self.wfile.write(f"{self.server.network.proxied(int(port))}\n".encode())


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
