"""Two drivers of one topology: the older one, asleep at whatever point, wakes up fenced off, and changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.fault_folder import FAULTS_VARIABLE, Fault, FaultAction, FaultFolder
from anchorbolt.faults import FaultPoint
from tests.crash.job import write_waves
from tests.crash.outcome import differences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 120
POINTS = [
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACE_COMMITTED,
    FaultPoint.SINK_FILE_MOVED,
]


class Driver:
    """A driver in a process group of its own, with its JVM and its workers."""

    def __init__(self, folder: Path, conf: Path, name: str, faults: Path | None = None) -> None:
        self.log = folder / f"{name}.log"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if faults is not None:
            environment[FAULTS_VARIABLE] = str(faults)
        command = ["anchorbolt", "run", "tests.crash.job:topology", "--until-empty", "--conf", str(conf)]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command, "--master", "local[2]"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self.log.read_text(errors="backslashreplace")

    def signal(self, number: signal.Signals) -> None:
        """Signal the driver's own process; its JVM and its workers go on."""
        os.kill(self.process.pid, number)

    def end(self) -> int:
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the driver has not ended:\n{self.output}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


StartDriver = Callable[..., Driver]


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[StartDriver]:
    started: list[Driver] = []

    def start(name: str, faults: Path | None = None) -> Driver:
        started.append(Driver(tmp_path / "run", tmp_path / "conf.json", name, faults))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


@pytest.mark.parametrize("point", POINTS, ids=[point.name for point in POINTS])
def test_an_older_driver_that_slept_is_fenced_and_has_no_effect(
    tmp_path: Path, start_driver: StartDriver, point: FaultPoint
) -> None:
    folder = tmp_path / "run"
    waves = write_waves(folder, 4)
    conf: dict[str, Any] = {
        "topology.checkpoint.location": str(folder / "checkpoint"),
        "topology.state.provider.config": {"directory": str(folder / "state")},
    }
    (tmp_path / "conf.json").write_text(json.dumps(conf))
    faults = FaultFolder(tmp_path / "faults")
    faults.write([Fault(point, FaultAction.HANG, txid=1)])
    older = start_driver("older", faults.path)
    deadline = time.monotonic() + DEADLINE_S
    while not faults.has_struck(0):
        assert time.monotonic() < deadline, older.output
        assert older.process.poll() is None, older.output
        time.sleep(0.05)
    older.signal(signal.SIGSTOP)

    newer = start_driver("newer")
    assert newer.end() == 0, newer.output
    assert differences(folder, conf, waves) == []

    faults.release()
    older.signal(signal.SIGCONT)
    assert older.end() == 4, older.output
    assert "a newer driver" in older.output or "another driver runs this topology" in older.output
    assert differences(folder, conf, waves) == []
