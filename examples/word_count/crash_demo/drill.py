"""One run of the demo: the job is started, a worker is killed, the driver is killed, the job is started again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crash_demo.events import Ended, Recovered, WaveCommitted
from crash_demo.job_process import DemoError, JobProcess

__all__ = ["Drill", "Kill", "KillPlan", "Story"]


@dataclass(frozen=True)
class KillPlan:
    """The moment of a kill: the wave after whose commit it happens, and the fraction of a wave's time to wait."""

    worker_after: int
    worker_part: float
    driver_after: int
    driver_part: float

    @classmethod
    def drawn(cls, chance: random.Random, waves: int) -> KillPlan:
        """Draw the worker's moment from around the middle of the waves, the driver's from the last third."""
        return cls(
            worker_after=chance.randrange(waves * 3 // 10, waves * 6 // 10),
            worker_part=chance.random(),
            driver_after=chance.randrange(waves * 13 // 20, waves * 9 // 10),
            driver_part=chance.random(),
        )


@dataclass(frozen=True)
class Kill:
    """A killed process (`worker` or `driver`), with the time and the wave.

    Attributes:
        victim: Which process it was.
        pid: Its id.
        at: Seconds after the start of the demo.
        txid: The wave that was under way, or was next.
        into_ms: Milliseconds since the wave before was committed.
    """

    victim: str
    pid: int
    at: float
    txid: int
    into_ms: float


@dataclass
class Story:
    """The events of a run of the demo."""

    kills: list[Kill] = field(default_factory=list)
    recoveries: list[Recovered] = field(default_factory=list)
    rounds: dict[int, int] = field(default_factory=dict)
    gone_after_s: float = 0.0
    counts: Mapping[str, int] = field(default_factory=Counter)
    seconds: float = 0.0


class Drill:
    """Runs the job with both kills."""

    def __init__(
        self, conf: Path, work: Path, plan: KillPlan, chance: random.Random, say: Callable[[str], None]
    ) -> None:
        """Prepare a run; it calls `say` with a line for each event."""
        self._conf = conf
        self._work = work
        self._plan = plan
        self._chance = chance
        self._say = say
        self._started = 0.0
        self._commits: list[tuple[int, float]] = []
        self.story = Story()

    def run(self) -> Story:
        """Run the job to its end, with both kills on the way.

        Raises:
            DemoError: The job ended by itself before, or something outlived the killed driver.
        """
        self._started = time.monotonic()
        with JobProcess(self._conf, self._work) as job:
            self._until_killed(job)
            self.story.gone_after_s = job.wait_until_gone()
        self._say(f"its JVM and its workers are gone, {self.story.gone_after_s:.1f} s later; the job starts again")
        with JobProcess(self._conf, self._work) as job:
            for event in job.events():
                self._note(event)
        self.story.seconds = time.monotonic() - self._started
        return self.story

    def _until_killed(self, job: JobProcess) -> None:
        plan = self._plan
        worker: tuple[int, float] | None = None
        driver: float | None = None
        for event in job.events():
            self._note(event)
            if isinstance(event, Ended):
                raise DemoError("the job was done before its driver was killed")
            if not isinstance(event, WaveCommitted) or driver is not None:
                continue
            if worker is None and event.txid >= plan.worker_after:
                self._wait_for_part(plan.worker_part)
                worker = job.kill_worker(self._chance)
                self._say(f"killed the Python worker {worker[0]}")
            elif worker is not None and event.txid >= plan.driver_after:
                self._wait_for_part(plan.driver_part)
                driver = job.kill_driver()
                self._say(f"killed the driver {job.pid}")
        assert worker is not None
        assert driver is not None
        self.story.kills = [self._kill("worker", *worker), self._kill("driver", job.pid, driver)]

    def _wait_for_part(self, part: float) -> None:
        """Wait for a fraction of the time that passed between the last two commits."""
        moments = [at for _, at in self._commits[-2:]]
        into_wave = moments[-1] + part * (moments[-1] - moments[0]) - time.monotonic()
        time.sleep(max(0.0, into_wave))

    def _kill(self, victim: str, pid: int, at: float) -> Kill:
        txid, before = max((each for each in self._commits if each[1] <= at), key=lambda each: each[1])
        return Kill(victim, pid, at - self._started, txid + 1, (at - before) * 1000)

    def _note(self, event: Recovered | WaveCommitted | Ended) -> None:
        if isinstance(event, Recovered):
            self.story.recoveries.append(event)
            self._say(f"the driver has {event.action}, up to txid {event.txid}")
        elif isinstance(event, WaveCommitted):
            self.story.rounds[event.txid] = event.rounds
            self._commits.append((event.txid, event.at))
            if event.rounds > 1:
                self._say(f"wave {event.txid} was rolled back and run again: {event.rounds} rounds")
        else:
            self.story.counts = event.counts
