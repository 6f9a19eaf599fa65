"""Faults that apply to several processes and their restarts, shared through a folder. For tests only.

The environment variable `ANCHORBOLT_FAULTS` names the folder; a driver passes it to the Spark workers that it starts.
The folder holds `faults.json`, the hits and strike of each fault, the process ids of driver and workers, and the
events of the run, one line each. `anchorbolt.testing.crash` writes and reads it.
"""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from anchorbolt.errors import ConfigError, FaultInjected
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.util.messages import did_you_mean, shortened

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
    WORKER = "worker"  # the Spark Python worker that reached the point; on the driver, the last to reach any point


@dataclass(frozen=True)
class Fault:
    """One fault, which strikes once.

    Members of the enumerations may be given by their values, such as `"state.sealed"`. Raises `ConfigError` if a value
    is unknown, out of range or unsuitable for the point: otherwise a test would pass without its fault.
    """

    point: FaultPoint
    action: FaultAction = FaultAction.KILL
    nth: int = 1
    """Strike on the nth time that the point is reached with this `component`, `task_index` and `txid`, counted from 1
    across processes and restarts."""
    component: str | None = None
    """Strike only for this component, at a point that `has_component`; None for any."""
    task_index: int | None = None
    """Strike only for this task, at a point that `has_task`; None for any."""
    txid: int | None = None
    """Strike only in this transaction, at least the point's `first_txid`; None for any."""
    victim: Victim = Victim.HERE
    seconds: float = 0.0
    """Duration of DELAY and STOP."""

    def __post_init__(self) -> None:
        enumerations: dict[str, type[Enum]] = {"point": FaultPoint, "action": FaultAction, "victim": Victim}
        for name, kind in enumerations.items():
            object.__setattr__(self, name, _member(name, getattr(self, name), kind))
        for name, least in {"nth": 1, "task_index": 0, "txid": -1}.items():
            given = getattr(self, name)
            if (name == "nth" or given is not None) and (type(given) is not int or given < least):
                raise _refusal(name, given, f"Pass a whole number, at least {least}.")
        if type(self.seconds) not in (int, float) or not 0 <= self.seconds < math.inf:
            raise _refusal("seconds", self.seconds, "Pass a number of seconds, at least 0.")
        if self.component is not None and (not isinstance(self.component, str) or not self.component):
            raise _refusal("component", self.component, "Pass a component's id.")
        self._check_reachable()

    def _check_reachable(self) -> None:
        """Refuse a component, a task or a transaction with which the point is never reached."""
        point, first = self.point, self.point.first_txid
        has_txid = first is not None and (self.txid is None or self.txid >= first)
        for name, fits in {"component": point.has_component, "task_index": point.has_task, "txid": has_txid}.items():
            if getattr(self, name) is not None and not fits:
                reason = "the point has none" if name != "txid" or first is None else f"the first is {first}"
                raise ConfigError(
                    f"Fault: {name} does not fit FaultPoint.{point.name} ({point.value!r}): {reason}. Leave it out, "
                    "and use nth to select a later time."
                )

    def fits(self, reached: PointReached) -> bool:
        """Return whether this fault counts a point that was reached."""
        return (
            self.point is reached.point
            and self.component in (None, reached.component)
            and self.task_index in (None, reached.task_index)
            and self.txid in (None, reached.txid)
        )


def _member(name: str, given: object, kind: type[Enum]) -> Enum:
    """Return the member of `kind` that equals `given` or has this value."""
    try:
        return kind(given)
    except ValueError:
        values = [member.value for member in kind]
        named = kind.__members__.get(str(given).upper())
        hint = did_you_mean(named.value if named else str(given), values)
        advice = f"Pass a {kind.__name__}, or the value of one: {', '.join(values)}."
        raise _refusal(name, given, advice, hint) from None


def _refusal(name: str, given: object, advice: str, hint: str = "") -> ConfigError:
    return ConfigError(f"Fault: {name} is {shortened(given, 100)}.{hint} {advice}")


class FaultFolder:
    """The faults of a folder, for one process. A fault's number is its index in `faults.json`."""

    def __init__(self, path: str | Path, *, in_worker: bool = False) -> None:
        """Use a folder; `in_worker` if this process is a Spark worker, which may commit state for the driver."""
        self.path = Path(path)
        self._in_worker = in_worker
        self._faults: list[Fault] | None = None
        self._driver_is_noted = False

    def write(self, faults: Sequence[Fault]) -> None:
        """Create the folder with these faults, and delete what it held before."""
        self.path.mkdir(parents=True, exist_ok=True)
        for old in self.path.iterdir():
            old.unlink()
        (self.path / "faults.json").write_text(json.dumps([asdict(fault) for fault in faults]))

    def check_known(self, tasks: Mapping[str, int | None]) -> None:
        """Raise `ConfigError` if a fault names a component or task outside the topology.

        `tasks` has the number of tasks of each component, None if unknown.
        """
        for fault in self._read():
            component, index = fault.component, fault.task_index
            if component is not None and component not in tasks:
                raise ConfigError(
                    f"Fault: component is {component!r}, which the topology does not have."
                    f"{did_you_mean(component, tasks)} It has {', '.join(tasks)}. Nothing was started."
                )
            count = None if component is None else tasks[component]
            if index is not None and count is not None and index >= count:
                raise ConfigError(
                    f"Fault: task_index is {index}, but {component!r} has {count} tasks, counted from 0. Nothing was "
                    "started."
                )

    def on_point(self, reached: PointReached) -> None:
        """Strike with the faults that fit. This is an observer for `points.observe`."""
        self._note_process("driver" if reached.point.on_driver and not self._in_worker else "worker")
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
        """Return the newest `driver`, or the `worker` that last reached a point; None before there is one."""
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
        if role == "driver" and self._driver_is_noted:
            return  # later, several of its threads may reach points at the same time
        self._driver_is_noted |= role == "driver"
        temporary = self.path / f".{role}-{os.getpid()}-{threading.get_ident()}"
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
        elif pid := os.getpid() if fault.victim is Victim.HERE else self.pid_of(fault.victim.value):
            if fault.action is FaultAction.STOP:
                _stop(pid, fault.seconds)
            else:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _released(number: int | None) -> str:
    return "released" if number is None else f"released-{number}"


def _stop(pid: int, seconds: float) -> None:
    """Stop a process, perhaps this one; a child process wakes it."""
    waker = f"import os, time; time.sleep({seconds}); os.kill({pid}, {int(signal.SIGCONT)})"
    subprocess.Popen([sys.executable, "-c", waker], start_new_session=True)
    os.kill(pid, signal.SIGSTOP)


def install_faults(tasks: Mapping[str, int | None] | None = None) -> None:
    """Observe this process with the folder that the environment names, if any. Every driver and worker calls it.

    A driver passes `tasks` for `FaultFolder.check_known`. Raises its `ConfigError`, also if the folder is unreadable.
    """
    path = os.environ.get(FAULTS_VARIABLE)
    if path:
        folder = FaultFolder(path, in_worker=tasks is None)
        if tasks is not None:
            folder.check_known(tasks)
        observe(folder.on_point)
