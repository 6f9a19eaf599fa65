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

HOST = "127.0.0.1"

_LOWEST_PORT, _PORTS = 12_000, 10_000
_PORT_ATTEMPTS = 5
_PORT_IN_USE = ("Address already in use", "BindException")
_END_SECONDS = 30.0
_STOP_SECONDS = 30.0
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
    """A server of one process or several, which keeps its ports and its data when it is started again.

    The methods that take a `part` mean that one of its processes; without, all that run.
    """

    ready_seconds = 30.0
    poll_seconds = 0.01
    stop_signal = signal.SIGTERM
    passing_errors: tuple[str, ...] = ()  # of a start that is worth another one
    parts: tuple[str, ...] = ("server",)

    def __init__(self, directory: Path) -> None:
        self.host = HOST
        self.port = 0
        self.directory = directory
        self.processes: dict[str, OwnedProcess] = {}

    @property
    def pid(self) -> int:
        return self.processes[self.parts[0]].pid

    @property
    def is_running(self) -> bool:
        return bool(self.processes)

    def log(self, part: str) -> str:
        path = self._log_path(part)
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start what does not run, and return when it answers; what it has persisted is loaded by then."""
        deadline = time.monotonic() + self.ready_seconds
        is_first = self.port == 0
        ports_tried = 0
        while True:
            if is_first:
                self._choose_ports()
            logs_before = {part: len(self.log(part)) for part in self.parts}
            for part in self.parts:
                if part not in self.processes:
                    self.start_part(part)
            ended = self._wait_until_ready(deadline)
            if ended is None:
                return
            said = self.log(ended)[logs_before[ended] :]
            self.kill()
            port_was_taken = any(sign in said for sign in _PORT_IN_USE)
            ports_tried += port_was_taken
            passes = any(sign in said for sign in self.passing_errors)
            again = passes or (port_was_taken and ports_tried < _PORT_ATTEMPTS)
            if not again or time.monotonic() > deadline:
                raise RuntimeError(f"the {ended} of {type(self).__name__} did not start:\n{said[-3000:]}")

    def start_part(self, part: str) -> None:
        assert part not in self.processes, f"the {part} is running"
        self.processes[part] = self._launch(part)

    def pause(self, part: str | None = None) -> None:
        """Stop the processes by SIGSTOP: they keep their connections and answer nothing."""
        for each in self._running(part):
            stop_process(self.processes[each].pid)

    def resume(self, part: str | None = None) -> None:
        for each in self._running(part):
            os.kill(self.processes[each].pid, signal.SIGCONT)

    def kill(self, part: str | None = None) -> None:
        for each in self._running(part):
            self.processes.pop(each).end(signal.SIGKILL)

    def stop(self, part: str | None = None) -> None:
        for each in self._running(part):
            self.processes.pop(each).end(self.stop_signal)

    def close(self) -> None:
        self.stop()

    def restart(self) -> None:
        """Start the server again on its port and its data; one that still runs is stopped first."""
        self.stop()
        self.start()

    @abstractmethod
    def _launch(self, part: str) -> OwnedProcess: ...

    @abstractmethod
    def _is_ready(self) -> bool:
        """Ask whether this very process answers: another server may have taken the port first."""

    def _choose_ports(self) -> None:
        self.port = free_port()

    def _running(self, part: str | None) -> list[str]:
        return [part] if part else [each for each in reversed(self.parts) if each in self.processes]

    def _log_path(self, part: str) -> Path:
        return self.directory / f"{part}.log"

    def _wait_until_ready(self, deadline: float) -> str | None:
        """Return None when this very server answers, or the part that has ended by itself."""
        while time.monotonic() < deadline:
            for part in self.parts:
                if self.processes[part].has_ended:
                    return part
            if self._is_ready():
                return None
            time.sleep(self.poll_seconds)
        said = self.log(self.parts[0])[-3000:]
        self.kill()
        raise RuntimeError(f"{type(self).__name__} did not answer within {self.ready_seconds:.0f} s:\n{said}")


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


def stop_process(pid: int) -> None:
    """Send SIGSTOP and return when no thread of the process runs any longer.

    The signal alone promises nothing for the next moment: a thread that runs on another core may still answer.

    Raises:
        TimeoutError: A thread still runs after 30 s.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _STOP_SECONDS
    while running := [thread for thread in Path(f"/proc/{pid}/task").iterdir() if not _is_stopped(thread)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} was sent SIGSTOP, and {len(running)} threads still run")
        time.sleep(0.001)


def _is_stopped(thread: Path) -> bool:
    try:
        stat = (thread / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return True
    return stat.rpartition(") ")[2][0] in "TtZX"  # after the name, which may hold any character (proc(5))
