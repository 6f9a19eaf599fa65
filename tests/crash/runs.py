"""Runs of the job of this folder: killed at named points, or hanging there while a test does harm."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorbolt.faults.injection import FAULTS_VARIABLE, Fault, FaultFolder
from anchorbolt.testing import CrashReport, CrashRunner, FaultPoint, Victim
from tests.cli.command import Command, run_arguments, wait_until
from tests.crash.job import write_waves
from tests.crash.outcome import differences, lost_and_twice
from tests.crash.plans import input_for, kills
from tests.support import spark_jvm
from tests.support.stores import Store, settings_of

JOB = "tests.crash.job:topology"
START_TIMEOUT_S = 900  # a start may lose nine workers, one after the other, on a busy machine


def conf_of(folder: Path, store: Store) -> dict[str, Any]:
    """Return the configuration of the job in a folder."""
    return {"topology.checkpoint.location": str(folder / "checkpoint"), **settings_of(store)}


@dataclass(frozen=True)
class KilledRun:
    """A run that came to its end, what is wrong with it, and how many words and rows are lost or there twice."""

    report: CrashReport
    wrong: list[str]
    lost: int
    twice: int


def kill_at(folder: Path, store: Store, points: Sequence[FaultPoint], victim: Victim) -> KilledRun:
    """Run the job with a kill at each of these points.

    Raises:
        CrashTestError: The job could not be brought to its end.
    """
    waves = input_for(folder, points)
    conf = conf_of(folder, store)
    runner = CrashRunner(JOB, folder, conf=conf, arguments=["--master", "local[2]"], start_timeout_s=START_TIMEOUT_S)
    report = runner.run(*kills(points, victim))
    wrong = differences(folder, conf, waves)
    wrong += [f"never struck: {fault}" for fault in report.faults if fault not in report.struck]
    return KilledRun(report, wrong, *lost_and_twice(folder, conf, waves))


class AccompaniedRun:
    """One topology's input, state and drivers, below one folder."""

    def __init__(
        self,
        home: Path,
        store: Store,
        *,
        waves: int = 4,
        large: int | None = None,
        faults: Sequence[Fault] = (),
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = home / "run"
        self.conf = {**conf_of(self.folder, store), **(conf or {})}
        self.waves = write_waves(self.folder, waves, large)
        self.faults = FaultFolder(home / "faults")
        self.faults.write(faults)
        self._conf_path = home / "conf.json"
        self._drivers: list[Command] = []

    def start(
        self, *, faulty: bool = True, master: str = "local[2]", spark: Mapping[str, str] | None = None
    ) -> Command:
        """Start a driver, which runs until the input is empty."""
        self._conf_path.write_text(json.dumps(self.conf))
        environment = {FAULTS_VARIABLE: str(self.faults.path)} if faulty else {}
        if spark:
            environment |= spark_jvm.environment(spark)
        arguments = ("--until-empty", "--conf", str(self._conf_path), "--master", master)
        command = run_arguments(JOB, *arguments)
        driver = Command(command, directory=self.folder, env=environment)
        self._drivers.append(driver)
        return driver

    def wait_for_fault(self, number: int) -> int:
        """Wait until a fault, by its number, has struck; return the process id of where it did."""
        driver = self._drivers[-1]
        wait_until(lambda: bool(self._struck(number)) or driver.has_ended, f"fault {number} struck in {driver!r}")
        assert self._struck(number), f"it ended before fault {number} struck: {driver!r}"
        return int(self._struck(number)[0]["pid"])

    def wait_for_commit(self, txid: int) -> None:
        """Wait until a transaction is COMMITTED, in a driver that the faults hold for."""
        driver = self._drivers[-1]

        def committed() -> bool:
            return any(event["event"] == "commit.recorded" and event["txid"] == txid for event in self.faults.events())

        wait_until(lambda: committed() or driver.has_ended, f"txid {txid} committed by {driver!r}")
        assert committed(), repr(driver)

    def differences(self, waves: int | None = None, *, tidy: bool = True) -> list[str]:
        """Say in which ways the outcome of all waves, or of the first few, is not what it must be."""
        return differences(self.folder, self.conf, self.waves[:waves], tidy=tidy)

    def assert_done(self, driver: Command) -> None:
        """Wait for the end of a driver, and assert that the whole input has its effect, once."""
        assert driver.end() == 0, repr(driver)
        assert self.differences() == []

    def close(self) -> None:
        """End whatever runs."""
        for driver in self._drivers:
            driver.close()

    def _struck(self, number: int) -> list[dict[str, Any]]:
        return [event for event in self.faults.events() if event.get("number") == number]
