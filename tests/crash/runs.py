"""Runs of the job of this folder: killed at named points, or hanging there while a test or another driver acts."""

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from anchorbolt.cli.exit_codes import STATE_REFUSED
from anchorbolt.faults.injection import FAULTS_VARIABLE, Fault, FaultAction, FaultFolder
from anchorbolt.testing import CrashReport, CrashRunner, FaultPoint, Victim
from tests.cli.command import Command, run_arguments, wait_until
from tests.crash.job import write_waves
from tests.crash.outcome import differences, lost_and_twice
from tests.crash.plans import AFTER_A_FAILURE, IN_RECOVERY, kills
from tests.servers.server_process import stop_process
from tests.support import spark_jvm
from tests.support.stores import Store, settings_of

JOB = "tests.crash.job:topology"
CHAINED_JOB = "tests.crash.job:chained"
CHECKPOINT = "topology.checkpoint.location"
START_TIMEOUT_S = 900  # a start may lose nine workers, one after the other, on a busy machine


class KilledRun(NamedTuple):
    """A run that came to its end, what is wrong with it, and how many words and rows are lost or there twice."""

    report: CrashReport
    wrong: list[str]
    lost: int
    twice: int


def kill_at(
    folder: Path,
    settings: Mapping[str, Any],
    points: Sequence[FaultPoint],
    victim: Victim,
    large: int | None = None,
    job: str = JOB,
) -> KilledRun:
    """Run the job on the store of these settings, with a kill at each of these points; one of its waves may be large.

    Raises:
        CrashTestError: The job could not be brought to its end.
    """
    if FaultPoint.SLICE_APPLIED in points:  # a point between the slices of a commit, if it has several
        large = points.index(FaultPoint.SLICE_APPLIED) + 1
    return run_with(folder, settings, list(kills(points, victim)), len(points) + 2, large, job)


def run_with(
    folder: Path,
    settings: Mapping[str, Any],
    faults: Sequence[Fault],
    waves_wanted: int,
    large: int | None = None,
    job: str = JOB,
) -> KilledRun:
    """Run a job with these faults over `waves_wanted` waves. The one with the number `large` is large.

    Raises:
        CrashTestError: The job could not be brought to its end.
    """
    waves = write_waves(folder, waves_wanted, large)
    conf = {**settings, CHECKPOINT: str(folder / "checkpoint")}
    runner = CrashRunner(job, folder, conf=conf, arguments=["--master", "local[2]"], start_timeout_s=START_TIMEOUT_S)
    report = runner.run(*faults)
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
        waves: int | None = None,
        large: int | None = None,
        faults: Sequence[Fault] = (),
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = home / "run"
        self.conf = {**settings_of(store), CHECKPOINT: str(self.folder / "checkpoint"), **(conf or {})}
        self.waves = write_waves(self.folder, waves or max(4, len(faults) + 2), large)
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
        command = run_arguments(JOB, "--until-empty", "--conf", str(self._conf_path), "--master", master)
        self._drivers.append(Command(command, directory=self.folder, env=environment))
        return self._drivers[-1]

    def start_to_first_fault(self, **options: Any) -> Command:
        """Start a driver, with options of `start`, and wait until the first fault has struck."""
        driver = self.start(**options)
        self.wait_for_fault(0)
        return driver

    def wait_for_fault(self, number: int) -> int:
        """Wait until a fault, by its number, has struck; return the process id of where it did."""
        return int(self._wait_for(number=number)["pid"])

    def wait_for_commit(self, txid: int) -> None:
        """Wait until a transaction is COMMITTED, in a driver that the faults hold for."""
        self._wait_for(event="commit.recorded", txid=txid)

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

    def _wait_for(self, **wanted: Any) -> dict[str, Any]:
        """Wait for an event with these fields in a driver that the faults hold for."""
        driver = self._drivers[-1]

        def found() -> list[dict[str, Any]]:
            return [event for event in self.faults.events() if wanted.items() <= event.items()]

        wait_until(lambda: bool(found()) or driver.has_ended, f"{wanted} in {driver!r}")
        assert found(), f"it ended before {wanted}: {driver!r}"
        return found()[0]


def wrong_once_it_wakes(home: Path, store: Store, point: FaultPoint) -> list[str]:
    """Stop a driver at one of its points, let another one finish, wake the first; say what is not as it must be."""
    faults = [Fault(point, FaultAction.HANG, txid=None if point in IN_RECOVERY else 1)]
    if point in AFTER_A_FAILURE:
        faults.insert(0, Fault(FaultPoint.TASK_ALIGNED, FaultAction.RAISE, component="count", txid=1))
    large = 1 if point is FaultPoint.SLICE_APPLIED else None
    with closing(AccompaniedRun(home, store, faults=faults, large=large)) as run:
        older = run.start()
        run.wait_for_fault(len(faults) - 1)
        stop_process(older.pid)  # its JVM and its workers go on

        def wake() -> None:
            run.faults.release()
            older.send(signal.SIGCONT)

        newer = run.start(faulty=False)
        holds_lock = isinstance(store, Path) and point is FaultPoint.SLICE_APPLIED
        if holds_lock:  # of the file that it commits to: nobody can do anything about that but wait
            waits = "waiting for the state store"
            wait_until(lambda: waits in newer.err or newer.has_ended, f"it waits: {newer!r}")
            wake()
        wrong = [] if newer.end() == 0 else [f"the newer driver failed: {newer!r}"]
        wrong += run.differences()
        if not holds_lock:
            wake()
        if older.end() != STATE_REFUSED:
            wrong.append(f"the older driver did not end as fenced off: {older!r}")
        return wrong + [f"after the older one woke: {each}" for each in run.differences()]
