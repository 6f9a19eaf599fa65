"""Two drivers of one topology: the older one, asleep at whatever point, wakes up fenced off, and changes nothing."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.fault_folder import FAULTS_VARIABLE, Fault, FaultAction, FaultFolder
from anchorbolt.faults import FaultPoint
from tests.cli.command import Command, run_arguments, wait_until
from tests.crash.job import write_waves
from tests.crash.outcome import differences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

POINTS = [
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACE_COMMITTED,
    FaultPoint.SINK_FILE_MOVED,
]


StartDriver = Callable[..., Command]


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[StartDriver]:
    started: list[Command] = []

    def start(faults: Path | None = None) -> Command:
        arguments = run_arguments(
            "tests.crash.job:topology",
            "--until-empty",
            "--conf",
            str(tmp_path / "conf.json"),
            "--master",
            "local[2]",
        )
        env = {} if faults is None else {FAULTS_VARIABLE: str(faults)}
        started.append(Command(arguments, directory=tmp_path / "run", env=env))
        return started[-1]

    yield start
    for driver in started:
        driver.close()


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
    older = start_driver(faults.path)
    wait_until(lambda: faults.has_struck(0), f"{point.name} reached")
    older.send(signal.SIGSTOP)  # its JVM and its workers go on

    newer = start_driver()
    assert newer.end() == 0, repr(newer)
    assert differences(folder, conf, waves) == []

    faults.release()
    older.send(signal.SIGCONT)
    assert older.end() == 4, repr(older)
    assert "a newer driver" in older.err or "another driver runs this topology" in older.err
    assert differences(folder, conf, waves) == []
