"""A run: fills a stream, starts the job, kills by a plan, starts again what died, and judges what is left."""

import json
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import redis

from anchorbolt.errors import AnchorboltError
from tests.crash.deaths.drivers import Driver
from tests.crash.deaths.job import TASKS, job_conf
from tests.crash.deaths.messages import counts, load, messages
from tests.crash.deaths.outcome import delivered_and_pending, state_problems, stream_problems
from tests.crash.deaths.plan import Kill, Victim
from tests.crash.deaths.report import Report, Say
from tests.servers.redis_server import DURABLE, RedisServer
from tests.support.stores import redis_program, settings_of

_POLL_S = 0.02
_FIRST_WAVES = 5
_GROWTH, _GROWTH_MB = 1.5, 60.0  # of a process's memory, at most
_UNEXPECTED_ENDS = 3
_WAVES_BETWEEN_KILLS = 8
_LEAST_INTAKE = 100
_TAIL = 3000


@dataclass(frozen=True)
class Wanted:
    """Which run."""

    seed: int
    messages: int
    kills: Sequence[Kill]
    store: str = "redis"  # or sqlite
    late: bool = False
    stable: bool = True
    conf: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 3600.0
    vectorised: bool = False
    chained: bool = False


class Run:
    """One run below a folder of its own. `tests.crash.dead_letters` has another job, and judges more."""

    job = "tests.crash.deaths.job"

    def __init__(self, home: Path, wanted: Wanted, say: Say) -> None:
        self._home = home
        self._wanted = wanted
        self._say = say
        self._random = Random(f"victims {wanted.seed}")
        self._server = RedisServer(redis_program(), home / "redis", **DURABLE)
        self._drivers: list[Driver] = []
        self._report = Report(wanted.seed)
        self._unexpected = 0

    def run(self) -> Report:
        """Run it to its end, and return what happened."""
        wanted, report = self._wanted, self._report
        started = time.monotonic()
        self._deadline = started + wanted.timeout_s
        with closing(self._server):
            self._server.start()
            self._load()
            self._say(f"{wanted.messages} messages wait after {time.monotonic() - started:.0f} s")
            self._prepare()
            started = time.monotonic()
            try:
                self._go()
            except AssertionError as error:
                report.wrong.append(str(error))
            finally:
                for driver in self._drivers:
                    driver.end_session()
            report.seconds = time.monotonic() - started
            self._read_logs()
            try:
                report.wrong += self._problems()
            except AnchorboltError as error:
                report.wrong.append(f"the state cannot be read: {error}")
        return report

    def _load(self) -> None:
        """Provide what the job reads."""
        self._messages = messages(self._wanted.seed, self._wanted.messages)
        with self._server.client() as client:
            load(client, self._messages)

    def _settings(self) -> dict[str, Any]:
        """Return further settings of the job."""
        return {}

    def _problems(self) -> list[str]:
        """Say what is not as it must be, once the job has ended."""
        with self._server.client() as client:
            found = stream_problems(client, self._wanted.messages)
        return found + state_problems(self._conf, counts(self._messages), exactly=self._wanted.stable)

    def _prepare(self) -> None:
        wanted, folder = self._wanted, self._home / "run"
        folder.mkdir(parents=True)
        store = self._server if wanted.store == "redis" else folder / "state"
        location = {"topology.checkpoint.location": str(folder / "checkpoint")}
        # Some waves between two kills. A wave would hold much more, and most kills would come after the last one.
        most = max(_LEAST_INTAKE, wanted.messages // (len(wanted.kills) + 1) // _WAVES_BETWEEN_KILLS // TASKS)
        intake = {"topology.spout.intake.tuples": most}
        # A half that has failed comes again, and waits for ever where its old handle has met the other half.
        never = {"topology.enable.message.timeouts": False} if wanted.late else {}
        self._conf = {**settings_of(store), **location, **intake, **never, **self._settings(), **wanted.conf}
        self._conf_path = folder / "conf.json"

    def _go(self) -> None:
        self._start()
        for number, kill in enumerate(self._wanted.kills, 1):
            if not self._wait_for(kill) or not self._strike(kill, number):
                self._report.not_struck.append(str(kill))
        while not self._has_ended():
            time.sleep(_POLL_S)

    def _start(self) -> None:
        self._report.starts += 1
        self._redis_died = False
        self._conf_path.write_text(json.dumps(self._conf | self._chosen()))
        folder = self._home / "run"
        command = [sys.executable, "-m", self.job, str(self._conf_path)]
        self._drivers.append(Driver(command, folder / f"start-{self._report.starts}.log", folder=folder))

    def _chosen(self) -> dict[str, Any]:
        """Return the configuration that may differ from start to start; where trees stay open, it does."""
        wanted = self._wanted
        kinds = {"stable": wanted.stable, "vectorised": wanted.vectorised, "chained": wanted.chained}
        if not wanted.late:
            return job_conf(self._server, **kinds)
        tasks, ackers = self._random.randint(1, 3), self._random.randint(1, 3)
        self._say(f"start {self._report.starts} with {tasks} tasks of the spout and {ackers} ackers")
        own = job_conf(self._server, late=True, spout_tasks=tasks, **kinds)
        return {**own, "topology.acker.executors": ackers}

    def _wait_for(self, kill: Kill) -> bool:
        """Wait for the moment of a kill; return False if the run has ended before."""
        while self._delivered() < kill.delivered:
            if self._has_ended():
                return False
            time.sleep(_POLL_S)
        moment = time.monotonic() + kill.delay_s
        while time.monotonic() < moment:
            if self._has_ended():
                return False
            time.sleep(min(_POLL_S, max(0.0, moment - time.monotonic())))
        return True

    def _strike(self, kill: Kill, number: int) -> bool:
        if kill.victim is Victim.REDIS:
            self._redis_died = True
            self._server.kill()
            self._announce(kill, number)
            time.sleep(kill.away_s)
            self._server.start()
            return True
        while not self._drivers[-1].kill(kill.victim, self._random):
            if self._has_ended():
                return False
            time.sleep(_POLL_S)
        self._announce(kill, number)
        self._has_ended()  # starts again what died
        return True

    def _announce(self, kill: Kill, number: int) -> None:
        self._report.killed[kill.victim.value] += 1
        self._say(f"kill {number} of {len(self._wanted.kills)}, in start {self._report.starts}: {kill}")

    def _has_ended(self) -> bool:
        """Return whether the job has ended by itself; start it again if it was killed, or has failed."""
        assert time.monotonic() < self._deadline, (
            f"it took more than {self._wanted.timeout_s:.0f} s; the output of the last start ends with\n"
            f"{self._drivers[-1].text[-_TAIL:]}"
        )
        driver = self._drivers[-1]
        if driver.exit_code is None:
            return False
        if driver.was_stopped and driver.exit_code in (0, -signal.SIGTERM):
            self._check_stopped(driver.exit_code)
        elif not driver.was_killed:
            if driver.exit_code == 0:
                if not self._is_drained():
                    self._report.wrong.append(f"start {self._report.starts} ended before the stream was empty")
                else:
                    return True
            else:
                self._report.wrong.append(
                    f"start {self._report.starts} ended with {driver.exit_code}:\n{driver.text[-_TAIL:]}"
                )
            self._unexpected += 1
            assert self._unexpected <= _UNEXPECTED_ENDS, "it ended too often"
        self._start()
        return False

    def _check_stopped(self, exit_code: int) -> None:
        """Demand that a run that was stopped has finished what was in flight."""
        with self._server.client() as client:
            pending = delivered_and_pending(client)[1]
        # A Redis that dies may have delivered entries that have not reached the spout.
        if exit_code == 0 and pending and not self._wanted.late and not self._redis_died:
            self._report.wrong.append(f"start {self._report.starts} was stopped with {pending} messages in flight")

    def _is_drained(self) -> bool:
        with self._server.client() as client:
            delivered, pending = delivered_and_pending(client)
        return delivered == self._wanted.messages and not pending

    def _delivered(self) -> int:
        """Return how many messages the job has taken in."""
        try:
            with self._server.client() as client:
                return delivered_and_pending(client)[0]
        except redis.ConnectionError:
            return 0

    def _read_logs(self) -> None:
        report = self._report
        of_drivers = [wave_lines(driver.text) for driver in self._drivers]
        for lines in of_drivers:
            report.waves += len(lines)
            report.repeated += sum(line["rounds"] > 1 for line in lines)
            report.most_rounds = max([report.most_rounds, *(line["rounds"] for line in lines)])
            gaps = (after["at"] - before["at"] for before, after in pairwise(lines))
            report.longest_s = max([report.longest_s, *gaps])
        lines = max(of_drivers, key=len)
        if len(lines) > 2 * _FIRST_WAVES:
            first, last = lines[_FIRST_WAVES], lines[-1]
            report.first_mb, report.last_mb = max(line["mb"] for line in lines[:_FIRST_WAVES]), last["mb"]
            report.java_mb = first["java_mb"], last["java_mb"]
            report.workers_mb = max(line["worker_mb"] for line in lines[: 2 * _FIRST_WAVES]), last["worker_mb"]
            for what, before, after in (
                ("the driver's", report.first_mb, report.last_mb),
                ("a worker's", *report.workers_mb),
            ):
                if after > _GROWTH * before + _GROWTH_MB:
                    report.wrong.append(f"{what} memory grew from {before} to {after} MB")


def wave_lines(output: str) -> list[dict[str, Any]]:
    """Return what a driver has printed of its waves, see `tests.crash.deaths.job`."""
    return [json.loads(line) for line in re.findall(r'{"at": [^{}]*}', output)]
