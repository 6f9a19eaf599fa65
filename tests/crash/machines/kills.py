"""Kills at random moments, which a seed decides, while a run on isolated machines is fed all the time."""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from tests.crash.deaths.plan import Victim as DriverVictim
from tests.crash.machines.job import LINES
from tests.crash.machines.runs import MachinesRun
from tests.servers.hdfs_server import DATA_NODE, HdfsServer
from tests.servers.kafka_server import KafkaServer

_WORDS = [f"word{number}" for number in range(200)]
_LINE = 5
_WAITING = 20  # waves, at most, so that the last start soon comes to its end
_POLL_S = 0.05
_IN_A_ROW = 0.25  # so many kills do not wait for a wave after the one before
_LATER_S, _AWAY_S, _START_S = 2.0, 3.0, 10.0
_PATIENCE_S = 600.0
_FAILED = (1, 4)  # the codes after which a supervisor starts a job again
_TAIL = 3000
_EXECUTOR, _PYTHON = "CoarseGrainedExecutorBackend", "-m pyspark"


class Victim(Enum):
    MACHINE = "machine"  # all its processes and its disks
    EXECUTOR = "executor"  # the JVM; its worker's disks stay
    PYTHON = "Python worker"
    DRIVER = "driver"  # Python's process only
    DRIVER_AND_JVM = "driver and JVM"
    DATA_NODE = "DataNode"
    KAFKA = "Kafka"


_WEIGHTS = {Victim.MACHINE: 5, Victim.EXECUTOR: 3, Victim.PYTHON: 3, Victim.DRIVER: 1, Victim.DRIVER_AND_JVM: 3}
_WEIGHT_OF_SERVER = 3


@dataclass
class Kills:
    """Kills the parts of a run; the fields say afterwards what happened.

    Attributes:
        hdfs: Killed too, if there is one.
        kafka: Killed too, if there is one.
        killed: How often what was killed.
        ended: The ends of drivers that nobody had killed: exit code, and the last lines.
        wrong: What must not have happened.
    """

    run: MachinesRun
    seed: int
    hdfs: HdfsServer | None = None
    kafka: KafkaServer | None = None
    say: Callable[[str], None] = print
    killed: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(f"machines {self.seed}")
        self._added = self._done = 0  # waves

    def strike(self, times: int) -> None:
        """Start the run, kill so many times, let it process all that was added, and judge what is left."""
        self.say(f"seed {self.seed}: {times} kills")
        begun = time.monotonic()
        weights = dict(_WEIGHTS)
        if self.hdfs is not None:
            weights[Victim.DATA_NODE] = _WEIGHT_OF_SERVER
        if self.kafka is not None:
            weights[Victim.KAFKA] = _WEIGHT_OF_SERVER
        self._feed()
        self.run.start(until_empty=False)
        for number in range(times):
            if number == 0 or self._random.random() >= _IN_A_ROW:
                self._wait_for_wave()
            self._go_on_for(self._random.uniform(0, _LATER_S))
            victim = self._random.choices([*weights], [*weights.values()])[0]
            while not self._kill(victim):
                self._go_on_for(_POLL_S)
            self.killed[victim.value] += 1
            self.say(f"{time.monotonic() - begun:6.1f} s, wave {self._wave()}: kill {number + 1}, {victim.value}")
            self._revive(victim)
        self._wait_for_wave()
        self.run.drivers[-1].kill(DriverVictim.STOP, self._random)
        self.run.wait_for_end()
        self.run.start()
        code = self.run.wait_for_end()
        if code != 0:
            self.wrong.append(f"the last start ended with {code}:\n{self.run.drivers[-1].text[-_TAIL:]}")
        self.wrong += self.run.problems()
        self.say(f"{time.monotonic() - begun:6.1f} s: {dict(self.killed)}, {len(self.ended)} ended by themselves")

    def _kill(self, victim: Victim) -> bool:
        cluster = self.run.cluster
        self._machine = self._random.choice(cluster.running)
        if victim is Victim.MACHINE:
            cluster.kill(self._machine)
        elif victim is Victim.EXECUTOR:
            return cluster.kill_process(self._machine, _EXECUTOR, self._random)
        elif victim is Victim.PYTHON:
            return cluster.kill_process(self._machine, _PYTHON, self._random)
        elif victim is Victim.DATA_NODE:
            assert self.hdfs is not None
            self.hdfs.kill(DATA_NODE)
        elif victim is Victim.KAFKA:
            assert self.kafka is not None
            self.kafka.kill()
        else:
            return self.run.drivers[-1].kill(DriverVictim(victim.value), self._random)
        return True

    def _revive(self, victim: Victim) -> None:
        """Start again what does not come back by itself."""
        if victim is Victim.MACHINE:
            self._go_on_for(self._random.uniform(0, _AWAY_S))
            self.run.cluster.start_workers(self._machine)
        elif victim is Victim.DATA_NODE:
            assert self.hdfs is not None
            self._go_on_for(self._random.uniform(0, _AWAY_S))
            self.hdfs.start()
        elif victim is Victim.KAFKA:
            assert self.kafka is not None  # nothing is sent while it is away
            self.kafka.start()
        elif victim in (Victim.DRIVER, Victim.DRIVER_AND_JVM):
            self.run.start(until_empty=False)
            if self._random.random() < _IN_A_ROW:
                self._go_on_for(self._random.uniform(0, _START_S))

    def _wait_for_wave(self) -> None:
        """Wait until one more wave has been committed; if a driver fails meanwhile, start another one."""
        before = len(self.run.drivers), self._wave()
        deadline = time.monotonic() + _PATIENCE_S
        while self._wave() is None or (len(self.run.drivers), self._wave()) == before:
            text = self.run.drivers[-1].text[-_TAIL:]
            assert time.monotonic() < deadline, f"no wave for {_PATIENCE_S:.0f} s; seed {self.seed}:\n{text}"
            self._go_on_for(_POLL_S)

    def _go_on_for(self, seconds: float) -> None:
        """Feed the run for a time, and start its driver again if it has failed."""
        until = time.monotonic() + seconds
        while True:
            self._feed()
            driver = self.run.drivers[-1]
            if driver.exit_code is not None and not driver.was_killed:
                said = f"start {len(self.run.drivers)} ended with {driver.exit_code}:\n{driver.text[-_TAIL:]}"
                (self.ended if driver.exit_code in _FAILED else self.wrong).append(said)
                self.run.start(until_empty=False)
            if time.monotonic() >= until:
                return
            time.sleep(_POLL_S)

    def _feed(self) -> None:
        """Add the input of one wave, unless enough wait already."""
        self._done = max(self._done, self._wave() or 0)
        if self._added - self._done < _WAITING:
            self._added += 1
            self.run.add_input(" ".join(self._random.choices(_WORDS, k=_LINE)) for _ in range(LINES))

    def _wave(self) -> int | None:
        """Return the last wave that the present driver has shown, None before its first."""
        text = self.run.drivers[-1].text if self.run.drivers else ""
        shown = re.findall(r"^\s*wave (\d+):", text, re.MULTILINE)
        return int(shown[-1]) if shown else None
