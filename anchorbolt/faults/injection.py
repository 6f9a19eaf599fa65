"""Faults that hold for several processes and their restarts: a folder that says what to do, and notes what was done.

The folder is named by the environment variable `ANCHORBOLT_FAULTS`, which a driver hands on to the Spark workers that
it starts. It holds `faults.json`; beside it every fault's hits and strike, the process ids of driver and workers, and
the events of the run, one line each. For tests only: see `anchorbolt.testing.crash`.
"""

from __future__ import annotations

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
    checked_member,
    refuse_bad_numbers,
    refuse_unknown_task,
    refuse_unreachable,
)
from anchorbolt.faults.points import FaultPoint, PointReached, observe

FAULTS_VARIABLE = "ANCHORBOLT_FAULTS"
"""Environment variable with the folder of the faults that hold for a driver and the workers that it starts."""

_POLL_S = 0.05
_RECORDED = frozenset({FaultPoint.RECOVERED, FaultPoint.COMMITTED})


class FaultAction(str, Enum):
    """What happens at a point."""

    RAISE = "raise"
    """`FaultInjected` is raised there."""
    KILL = "kill"
    """The victim is killed with SIGKILL."""
    STOP = "stop"
    """The victim is stopped with SIGSTOP, for `seconds`, and then goes on."""
    HANG = "hang"
    """The thread that came there waits until it is let go by the folder's `release`."""
    DELAY = "delay"
    """The thread that came there waits for `seconds`."""


class Victim(str, Enum):
    """Which process is killed or stopped."""

    HERE = "here"
    """The one that reached the point."""
    DRIVER = "driver"
    """The driver."""
    WORKER = "worker"
    """A Spark Python worker: the one that reached the point, else the one that last reached any."""


@dataclass(frozen=True)
class Fault:
    """One fault, which strikes once.

    The members of the enumerations may be given by their values, such as `"state.sealed"`.

    Attributes:
        point: Where.
        action: What.
        nth: The how-manieth time that the point is reached, counted from 1 over all processes and restarts, those times
            only that fit `component`, `task_index` and `txid`.
        component: Only for this component, at a point that `has_component`; None for any.
        task_index: Only for this task, at a point that `has_task`; None for any.
        txid: Only in this transaction, from the point's `first_txid` on; None for any.
        victim: Who is killed or stopped.
        seconds: How long for DELAY and STOP.

    Raises:
        ConfigError: A value is unknown or out of range, or the point is never reached with it.
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
        refuse_bad_numbers(self.nth, self.task_index, self.txid, self.seconds)
        refuse_unreachable(self.point, self.component, self.task_index, self.txid)

    def fits(self, place: PointReached) -> bool:
        """Say whether a place is one of those that this fault counts."""
        return (
            self.point is place.point
            and self.component in (None, place.component)
            and self.task_index in (None, place.task_index)
            and self.txid in (None, place.txid)
        )


class FaultFolder:
    """The faults of a folder, as one process meets them."""

    def __init__(self, path: str | Path) -> None:
        """Use a folder; reads nothing yet."""
        self.path = Path(path)
        self._faults: list[Fault] | None = None
        self._noted: set[str] = set()

    def write(self, faults: Sequence[Fault]) -> None:
        """Make the folder, with these faults and without any memory of earlier ones."""
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.iterdir():
            old.unlink()
        (self.path / "faults.json").write_text(json.dumps([asdict(fault) for fault in faults]))

    def refuse_unknown(self, tasks: Mapping[str, int | None]) -> None:
        """Raise `ConfigError` where a fault is for what a topology does not have; see `refuse_unknown_task`."""
        for fault in self._read():
            if fault.component is not None:
                refuse_unknown_task(fault.component, fault.task_index, tasks)

    def on_point(self, place: PointReached) -> None:
        """An observer, see `anchorbolt.faults.points.observe`: do what the folder says about a place."""
        self._note_process("driver" if place.point.on_driver else "worker")
        if place.point in _RECORDED:
            self.record_event(place.point.value, txid=place.txid)
        for number, fault in enumerate(self._read()):
            if fault.fits(place) and not self.has_struck(number) and self._hit(number) == fault.nth:
                self._strike(number, fault, place)

    def has_struck(self, number: int) -> bool:
        """Say whether a fault, by its number, has struck."""
        return (self.path / f"struck-{number}").exists()

    def release(self, number: int | None = None) -> None:
        """Let go what hangs at a fault, by its number, or at any."""
        (self.path / _released(number)).touch()

    def record_event(self, event: str, **more: Any) -> None:
        """Append an event to the folder's record."""
        line = json.dumps({"at": time.time(), "event": event, "pid": os.getpid(), **more}) + "\n"
        with (self.path / "events.jsonl").open("ab", buffering=0) as file:
            file.write(line.encode())

    def events(self) -> list[dict[str, Any]]:
        """Return what was told so far, in order."""
        path = self.path / "events.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def pid_of(self, role: str) -> int | None:
        """Return the process that last reached a point as `driver` or `worker`; None if there was none."""
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
        """Count a hit, over all processes: each appends a byte."""
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

    def _strike(self, number: int, fault: Fault, place: PointReached) -> None:
        try:
            (self.path / f"struck-{number}").open("x").close()
        except FileExistsError:
            return
        self.record_event(
            "fault",
            number=number,
            action=fault.action.value,
            point=place.point.value,
            component=place.component,
            task_index=place.task_index,
            txid=place.txid,
        )
        if fault.action is FaultAction.RAISE:
            raise FaultInjected(f"a fault was injected at {place.point.value}, as the test asked for")
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
    """Stop a process, be it this one, and have a child of its own wake it."""
    waker = f"import os, time; time.sleep({seconds}); os.kill({pid}, {int(signal.SIGCONT)})"
    subprocess.Popen([sys.executable, "-c", waker], start_new_session=True)
    os.kill(pid, signal.SIGSTOP)


def install_faults(tasks: Mapping[str, int | None] | None = None) -> None:
    """Obey the folder that the environment names, if it does; called by every driver and worker that starts.

    Args:
        tasks: On a driver, how many tasks each component of its topology has; None where that is not known.

    Raises:
        ConfigError: On a driver, the folder cannot be used, or has a fault for a component or task that is not there.
    """
    path = os.environ.get(FAULTS_VARIABLE)
    if path:
        folder = FaultFolder(path)
        if tasks is not None:
            folder.refuse_unknown(tasks)
        observe(folder.on_point)
