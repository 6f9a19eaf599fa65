"""Faults that apply to several processes and their restarts, shared through a folder. For tests only.

The environment variable `ANCHORBOLT_FAULTS` names the folder; a driver passes it to the Spark workers that it starts.
The folder holds `faults.json`, the hits and strike of each fault, the process ids of driver and workers, and the
events of the run, one line each. `anchorbolt.testing.crash` writes and reads it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from anchorbolt.errors import ConfigError, FaultInjected
from anchorbolt.faults.checks import (
    check_component,
    check_known_task,
    check_number,
    check_reachable,
    check_seconds,
    checked_member,
)
from anchorbolt.faults.points import FaultPoint, PointReached, observe

FAULTS_VARIABLE = "ANCHORBOLT_FAULTS"

_POLL_S = 0.05
_RECORDED = frozenset({FaultPoint.RECOVERED, FaultPoint.COMMITTED})


class FaultAction(str, Enum):
    """The action of a fault at its point."""

    RAISE = "raise"  # raise `FaultInjected`
    KILL = "kill"  # send SIGKILL to the victim
    STOP = "stop"  # send SIGSTOP to the victim, and SIGCONT after `seconds`
    HANG = "hang"  # block the thread until the folder's `release`
    DELAY = "delay"  # block the thread for `seconds`


class Victim(str, Enum):
    """The process that a fault kills or stops."""

    HERE = "here"  # the process that reached the point
    DRIVER = "driver"
    WORKER = "worker"  # the Spark Python worker that reached the point; on the driver, that last reached any point


@dataclass(frozen=True)
class Fault:
    """One fault, which strikes once.

    Members of the enumerations may be given by their values, such as `"state.sealed"`.

    Attributes:
        point: Where the fault strikes.
        action: What it does.
        nth: Strike on the nth time that the point is reached with this `component`, `task_index` and `txid`, counted
            from 1 across processes and restarts.
        component: Strike only for this component, at a point that `has_component`; None for any.
        task_index: Strike only for this task, at a point that `has_task`; None for any.
        txid: Strike only in this transaction, at least the point's `first_txid`; None for any.
        victim: The process to kill or stop.
        seconds: Duration of DELAY and STOP.

    Raises:
        ConfigError: A value is unknown or out of range, or does not fit the point.
    """

    point: FaultPoint
    action: FaultAction = FaultAction.KILL
    nth: int = 1
    component: str | None = None
    task_index: int | None = None
    txid: int | None = None
    victim: Victim = Victim.HERE
    seconds: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", checked_member("point", self.point, FaultPoint))
        object.__setattr__(self, "action", checked_member("action", self.action, FaultAction))
        object.__setattr__(self, "victim", checked_member("victim", self.victim, Victim))
        check_number("nth", self.nth, 1)
        if self.component is not None:
            check_component(self.component)
        if self.task_index is not None:
            check_number("task_index", self.task_index, 0)
        if self.txid is not None:
            check_number("txid", self.txid, -1)
        check_seconds(self.seconds)
        check_reachable(self.point, self.component, self.task_index, self.txid)

    def fits(self, reached: PointReached) -> bool:
        """Return whether this fault counts a point that was reached."""
        return (
            self.point is reached.point
            and self.component in (None, reached.component)
            and self.task_index in (None, reached.task_index)
            and self.txid in (None, reached.txid)
        )


class FaultFolder:
    """The faults of a folder, for one process. A fault's number is its index in `faults.json`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._faults: list[Fault] | None = None
        self._noted: set[str] = set()

    def write(self, faults: Sequence[Fault]) -> None:
        """Create the folder with these faults, and delete what it held before."""
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.iterdir():
            old.unlink()
        (self.path / "faults.json").write_text(json.dumps([asdict(fault) for fault in faults]))

    def check_known(self, tasks: Mapping[str, int | None]) -> None:
        """Raise `ConfigError` if a fault names a component or task that is not in `tasks`."""
        for fault in self._read():
            if fault.component is not None:
                check_known_task(fault.component, fault.task_index, tasks)

    def on_point(self, reached: PointReached) -> None:
        """Strike with the faults that fit. This is an observer for `points.observe`."""
        self._note_process("driver" if reached.point.on_driver else "worker")
        if reached.point in _RECORDED:
            self.record_event(reached.point.value, txid=reached.txid)
        for number, fault in enumerate(self._read()):
            if fault.fits(reached) and not self.has_struck(number) and self._hit(number) == fault.nth:
                self._strike(number, fault, reached)

    def has_struck(self, number: int) -> bool:
        return (self.path / f"struck-{number}").exists()

    def release(self, number: int | None = None) -> None:
        """End the HANG of one fault, or of all."""
        (self.path / _released(number)).touch()

    def record_event(self, event: str, **more: Any) -> None:
        """Append an event to the folder's `events.jsonl`."""
        line = json.dumps({"at": time.time(), "event": event, "pid": os.getpid(), **more}) + "\n"
        with (self.path / "events.jsonl").open("ab", buffering=0) as file:
            file.write(line.encode())

    def events(self) -> list[dict[str, Any]]:
        """Return the recorded events, in order."""
        path = self.path / "events.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def pid_of(self, role: str) -> int | None:
        """Return the process that last reached a point as `driver` or `worker`, or None."""
        path = self.path / f"{role}.pid"
        return int(path.read_text()) if path.exists() else None

    def _read(self) -> list[Fault]:
        if self._faults is None:
            try:
                content = json.loads((self.path / "faults.json").read_text())
                self._faults = [Fault(**item) for item in content]
            except ConfigError as error:
                raise ConfigError(f"{self.path}/faults.json, named by {FAULTS_VARIABLE}: {error}") from error
            except (OSError, ValueError, TypeError) as error:
                raise ConfigError(
                    f"{FAULTS_VARIABLE} is set for a test of crashes, but {self.path}/faults.json cannot be read: "
                    f"{error}. Unset {FAULTS_VARIABLE}, unless this is such a test."
                ) from error
        return self._faults

    def _hit(self, number: int) -> int:
        """Count a hit across processes: each appends a byte to a file, whose size is the count."""
        with (self.path / f"hits-{number}").open("ab", buffering=0) as file:
            file.write(b".")
            return file.tell()

    def _note_process(self, role: str) -> None:
        if role not in self._noted:
            self._noted.add(role)
        elif role == "driver":
            return
        temporary = self.path / f".{role}-{os.getpid()}"
        temporary.write_text(str(os.getpid()))
        temporary.replace(self.path / f"{role}.pid")

    def _strike(self, number: int, fault: Fault, reached: PointReached) -> None:
        try:
            (self.path / f"struck-{number}").open("x").close()
        except FileExistsError:
            return
        self.record_event("fault", number=number, action=fault.action, **reached._asdict())
        if fault.action is FaultAction.RAISE:
            raise FaultInjected(f"a test injected a fault at {reached.point.value}")
        if fault.action is FaultAction.DELAY:
            time.sleep(fault.seconds)
        elif fault.action is FaultAction.HANG:
            while not any((self.path / _released(which)).exists() for which in (number, None)):
                time.sleep(_POLL_S)
        else:
            self._signal(fault)

    def _signal(self, fault: Fault) -> None:
        pid = os.getpid() if fault.victim is Victim.HERE else self.pid_of(fault.victim.value)
        if pid is None:
            return
        if fault.action is FaultAction.KILL:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        else:
            _stop(pid, fault.seconds)


def _released(number: int | None) -> str:
    return "released" if number is None else f"released-{number}"


def _stop(pid: int, seconds: float) -> None:
    """Stop a process, perhaps this one; a child process wakes it."""
    waker = f"import os, time; time.sleep({seconds}); os.kill({pid}, {int(signal.SIGCONT)})"
    subprocess.Popen([sys.executable, "-c", waker], start_new_session=True)
    os.kill(pid, signal.SIGSTOP)


def install_faults(tasks: Mapping[str, int | None] | None = None) -> None:
    """Observe this process with the folder that the environment names, if any. Every driver and worker calls it.

    A driver passes the number of tasks of each component (None if it is not known); then a `ConfigError` is raised if
    the folder cannot be read or a fault names a component or task that the topology lacks.
    """
    path = os.environ.get(FAULTS_VARIABLE)
    if path:
        folder = FaultFolder(path)
        if tasks is not None:
            folder.check_known(tasks)
        observe(folder.on_point)
