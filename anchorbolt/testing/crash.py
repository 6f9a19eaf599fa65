"""`CrashRunner`: runs a job as users do, kills it at named points, and restarts it until it ends by itself.

For a job's own tests, with real processes and real signals:

    runner = CrashRunner("jobs.word_count:topology", tmp_path / "crash", conf=conf)
    report = runner.run(Fault(FaultPoint.DECIDED), Fault(FaultPoint.SEALED, component="count"))
    assert report.struck == report.faults
    assert counts_in(tmp_path / "out") == plain_count_of(lines)
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.faults.injection import FAULTS_VARIABLE, Fault, FaultAction, FaultFolder
from anchorbolt.faults.points import FaultPoint

_STARTS_TO_SPARE = 3
_TAIL = 4000
_CONF = "crash-test-conf.json"
_WRONG_USAGE = 2  # exit code of `anchorbolt run` for a job, configuration or fault that it refuses


class CrashTestError(AnchorboltError):
    """A crash test failed: the job did not finish, or not in time."""


@dataclass(frozen=True)
class JobStart:
    """One start of the job."""

    exit_code: int  # of the driver's process; the negative signal number if a signal ended it
    seconds: float  # duration of the process
    recovery: str  # `started`, `resumed`, `rolled back` or `rolled forward`; empty if it ended before its recovery
    first_commit_s: float | None  # seconds from its start to its first COMMITTED wave; None if it committed no wave
    output: str  # of the process


@dataclass(frozen=True)
class CrashReport:
    """The result of a crash test."""

    faults: tuple[Fault, ...]  # the requested faults
    struck: tuple[Fault, ...]  # the faults that struck
    starts: tuple[JobStart, ...]  # every start of the job, in order; the last one ended by itself
    seconds: float  # duration from the first start to the last end


class CrashRunner:
    """Runs a job with faults, by `anchorbolt run --until-empty` in new processes, until it ends by itself."""

    def __init__(
        self,
        job: str,
        directory: str | Path,
        *,
        conf: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 180,
    ) -> None:
        """Create a runner.

        Args:
            job: MODULE:NAME, importable from this process's current directory, from `directory`, or by `PYTHONPATH`.
            directory: The job's current directory, created if it does not exist. The runner keeps its files below it.
            conf: The job's configuration.
            arguments: Further arguments of `anchorbolt run`, such as `["--master", "local[2]"]`.
            environment: Environment variables to add to those of this process.
            start_timeout_s: Maximum seconds for one start; after that the runner kills it and the test fails.
        """
        self._job = job
        self._directory = Path(directory).absolute()
        self._conf = dict(conf or {})
        self._arguments = list(arguments)
        self._folder = FaultFolder(self._directory / "faults")
        self._environment = {**os.environ, **(environment or {}), FAULTS_VARIABLE: str(self._folder.path)}
        importable = [os.getcwd(), self._environment.get("PYTHONPATH", "")]
        self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, importable))
        self._start_timeout_s = start_timeout_s

    def run(self, *faults: Fault) -> CrashReport:
        """Start the job repeatedly, until it ends with exit code 0.

        Each fault strikes once over all starts. The number of starts is at most the number of faults plus 3.

        Raises:
            ConfigError: An argument is not a `Fault`. Nothing was started.
            CrashTestError: The job did not finish within these starts, one start took too long, or one start ended with
                exit code 2 (wrong usage): then the job is not started again.
        """
        for fault in faults:
            if not isinstance(fault, Fault):
                raise ConfigError(
                    f"CrashRunner.run: {fault!r} is not a Fault. Pass each fault as an argument, as in "
                    "run(Fault(FaultPoint.DECIDED), Fault(FaultPoint.SEALED)); pass a list as run(*faults)."
                )
        self._directory.mkdir(parents=True, exist_ok=True)
        self._folder.write(faults)
        (self._directory / _CONF).write_text(json.dumps(self._conf))
        begun = time.monotonic()
        starts: list[JobStart] = []
        groups: list[int] = []
        try:
            while not starts or starts[-1].exit_code != 0:
                if len(starts) >= len(faults) + _STARTS_TO_SPARE:
                    raise CrashTestError(
                        f"{self._job} was started {len(starts)} times and did not finish; {self._struck(faults)}. "
                        f"Its last output:\n{starts[-1].output[-_TAIL:]}"
                    )
                starts.append(self._start(len(starts), groups, faults))
                if starts[-1].exit_code == _WRONG_USAGE:
                    raise CrashTestError(
                        f"{self._job} ended with exit code {_WRONG_USAGE}, wrong usage, in start {len(starts)}; "
                        "further starts would end the same way. Fix the problem that it reports:\n"
                        f"{starts[-1].output[-_TAIL:]}"
                    )
        finally:
            for group in groups:  # the JVM and the workers of a killed driver
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
        struck = tuple(fault for number, fault in enumerate(faults) if self._folder.has_struck(number))
        return CrashReport(faults, struck, tuple(starts), time.monotonic() - begun)

    def _start(self, number: int, groups: list[int], faults: Sequence[Fault]) -> JobStart:
        command = [sys.executable, "-m", "anchorbolt", "run", self._job, "--until-empty", "--conf", _CONF]
        events_before = len(self._folder.events())
        log = self._directory / f"start-{number}.log"
        begun, begun_at = time.monotonic(), time.time()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *self._arguments],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        groups.append(process.pid)
        try:
            exit_code = process.wait(self._start_timeout_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            text = log.read_text(errors="backslashreplace")
            raise CrashTestError(
                f"{self._job} took more than {self._start_timeout_s:g} s, in start {number + 1}; "
                f"{self._struck(faults)}. Its output:\n{text[-_TAIL:]}"
            ) from error
        seconds = time.monotonic() - begun
        commits = [
            event["at"] - begun_at
            for event in self._folder.events()[events_before:]
            if event["event"] == FaultPoint.COMMITTED.value and event["pid"] == process.pid
        ]
        text = log.read_text(errors="backslashreplace")
        recovery = re.search(r"^recovery: (.*?)(?:;| \(|$)", text, re.MULTILINE)
        return JobStart(exit_code, seconds, recovery[1] if recovery else "", next(iter(commits), None), text)

    def _struck(self, faults: Sequence[Fault]) -> str:
        struck = [_named(fault, number) for number, fault in enumerate(faults) if self._folder.has_struck(number)]
        return f"{len(struck)} of {len(faults)} faults had struck{': ' if struck else ''}{', '.join(struck)}"


def _named(fault: Fault, number: int) -> str:
    asked = {"component": fault.component, "task_index": fault.task_index, "txid": fault.txid}
    given = "".join(f" {name}={value!r}" for name, value in asked.items() if value is not None)
    hint = f" (until faults/released-{number} appears)" if fault.action is FaultAction.HANG else ""
    return f"{fault.action.name} at {fault.point.name}{given}{hint}"
