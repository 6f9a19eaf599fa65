"""A run: fills a stream, starts the job, kills by a plan, starts again what died, and judges what is left."""

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
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
from tests.support.redis_server import DURABLE, RedisServer
from tests.support.stores import redis_program, settings_of

_POLL_S = 0.02
_FIRST_WAVES = 5
_GROWTH, _GROWTH_MB = 1.5, 60.0  # of the last driver's memory, at most
_UNEXPECTED_ENDS = 3
_WAVES_BETWEEN_KILLS = 8
_LEAST_INTAKE = 100
_TAIL = 3000


@dataclass
class Report:
    """What happened."""

    seed: int
    killed: Counter[str] = field(default_factory=Counter)
    not_struck: list[str] = field(default_factory=list)
    starts: int = 0
    waves: int = 0
    repeated: int = 0  # waves that took several rounds
    seconds: float = 0.0
    first_mb: float = 0.0  # of the last driver, after its first waves
    last_mb: float = 0.0
    java_mb: tuple[int, int] = (0, 0)  # of its JVM, in the same way
    wrong: list[str] = field(default_factory=list)


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


class Run:
    """One run below a folder of its own."""

    def __init__(self, home: Path, wanted: Wanted, say: Callable[[str], None]) -> None:
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
            all_messages = messages(wanted.seed, wanted.messages)
            with self._server.client() as client:
                load(client, all_messages)
            self._say(f"{len(all_messages)} messages are in the stream after {time.monotonic() - started:.0f} s")
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
            with self._server.client() as client:
                report.wrong += stream_problems(client, wanted.messages)
            try:
                report.wrong += state_problems(self._conf, counts(all_messages), exactly=wanted.stable)
            except AnchorboltError as error:
                report.wrong.append(f"the state cannot be read: {error}")
        return report

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
        self._conf = {**settings_of(store), **location, **intake, **never, **wanted.conf}
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
        self._drivers.append(Driver(self._conf_path, self._home / "run" / f"start-{self._report.starts}.log"))

    def _chosen(self) -> dict[str, Any]:
        """Return the configuration that may differ from start to start; where trees stay open, it does."""
        wanted = self._wanted
        if not wanted.late:
            return job_conf(self._server, stable=wanted.stable)
        tasks, ackers = self._random.randint(1, 3), self._random.randint(1, 3)
        self._say(f"start {self._report.starts} with {tasks} tasks of the spout and {ackers} ackers")
        own = job_conf(self._server, late=True, stable=wanted.stable, spout_tasks=tasks)
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
        try:
            with self._server.client() as client:
                return delivered_and_pending(client)[0]
        except redis.ConnectionError:
            return 0

    def _read_logs(self) -> None:
        report = self._report
        for driver in self._drivers:
            lines = [json.loads(line) for line in re.findall(r'{"at": [^{}]*}', driver.text)]
            report.waves += len(lines)
            report.repeated += sum(line["rounds"] > 1 for line in lines)
            memory = [line["mb"] for line in lines]
            java = [line["java_mb"] for line in lines]
        if len(memory) > 2 * _FIRST_WAVES:
            report.first_mb, report.last_mb = max(memory[:_FIRST_WAVES]), memory[-1]
            report.java_mb = java[_FIRST_WAVES], java[-1]
            if report.last_mb > _GROWTH * report.first_mb + _GROWTH_MB:
                report.wrong.append(f"the driver's memory grew from {report.first_mb} to {report.last_mb} MB")
