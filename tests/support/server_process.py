"""Processes of real servers, on free loopback ports: started, paused, killed and started again by their process ids.

A server ends with the process that started it, also where that one is killed.
"""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.stopping import stop_process

HOST = "127.0.0.1"

_LOWEST_PORT, _PORTS = 12_000, 10_000
_PORT_ATTEMPTS = 5
_PORT_IN_USE = ("Address already in use", "BindException")
_END_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class OwnedProcess:
    def __init__(self, command: Sequence[str], log: Path, cwd: Path | str | None = None, **owner: Any) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_end_with_parent,
                **owner,
            )
        self.pid = self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def pause(self) -> None:
        """Stop it by SIGSTOP: it keeps its connections and answers nothing."""
        stop_process(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self, number: signal.Signals) -> None:
        """Send a signal that ends it, and wait; kill it if that takes too long."""
        self._process.send_signal(signal.SIGCONT)  # a stopped process acts on no other signal but SIGKILL
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Server(ABC):
    """A server of one process, which keeps its port and its data when it is started again."""

    ready_seconds = 30.0
    stop_signal = signal.SIGTERM
    passing_errors: tuple[str, ...] = ()  # of a start that is worth another one

    def __init__(self, log: Path) -> None:
        self.host = HOST
        self.port = 0
        self._log_path = log
        self._process: OwnedProcess | None = None

    @property
    def process(self) -> OwnedProcess:
        assert self._process is not None, "the server is not running"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> None:
        """Start the server, and return when it answers; what it has persisted is loaded by then."""
        assert self._process is None, "the server is running"
        deadline = time.monotonic() + self.ready_seconds
        is_first = self.port == 0
        ports_tried = 0
        while True:
            if is_first:
                self.port = free_port()
            log_before = len(self.log)
            self._process = self._launch()
            if self._wait_until_ready(deadline):
                return
            said = self.log[log_before:]
            ports_tried += port_was_taken(said)
            passes = any(sign in said for sign in self.passing_errors)
            again = passes or (port_was_taken(said) and ports_tried < _PORT_ATTEMPTS)
            if not again or time.monotonic() > deadline:
                raise RuntimeError(f"{type(self).__name__} did not start:\n{said[-2000:]}")

    def pause(self) -> None:
        """Stop the server by SIGSTOP: it keeps its connections and answers nothing."""
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self._end(self.stop_signal)

    def close(self) -> None:
        self.stop()

    def restart(self) -> None:
        """Start the server again on its port and its data; one that still runs is stopped first."""
        self.stop()
        self.start()

    @abstractmethod
    def _launch(self) -> OwnedProcess: ...

    @abstractmethod
    def _is_ready(self) -> bool:
        """Ask whether this very process answers: another server may have taken the port first."""

    def _wait_until_ready(self, deadline: float) -> bool:
        """Return True when this very process answers, False when it has ended by itself."""
        while time.monotonic() < deadline:
            if self.process.has_ended:
                self._process = None
                return False
            if self._is_ready():
                return True
            time.sleep(0.01)
        self.kill()
        raise RuntimeError(
            f"{type(self).__name__} did not answer within {self.ready_seconds:.0f} s:\n{self.log[-2000:]}"
        )

    def _end(self, number: signal.Signals) -> None:
        self.process.end(number)
        self._process = None


def port_was_taken(said: str) -> bool:
    return any(sign in said for sign in _PORT_IN_USE)


def free_port() -> int:
    """Return a loopback port that is free now; another process may still take it.

    Linux gives those from 32,768 on to connections, which would sooner or later have that of a server that is down, or
    of a Redis Cluster's bus, 10,000 above its server's.
    """
    while True:
        port = _LOWEST_PORT + secrets.randbelow(_PORTS)
        with socket.socket() as listener, suppress(OSError):
            listener.bind((HOST, port))
            return port


def _end_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
