"""When whom to kill: a plan that a seed decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random


class Victim(Enum):
    WORKER = "worker"
    DAEMON = "daemon"  # the process that forks the workers
    DRIVER = "driver"  # Python's process only: its JVM and its workers find out by themselves
    DRIVER_AND_JVM = "driver and JVM"  # and the workers: the whole session at once
    REDIS = "Redis"
    STOP = "driver, by a stop"  # no SIGKILL: it finishes what is in flight, and ends


WEIGHTS = {Victim.WORKER: 5, Victim.DAEMON: 1, Victim.DRIVER: 2, Victim.DRIVER_AND_JVM: 3, Victim.REDIS: 5}
_LATEST = 0.9  # of the messages: later the run could end before the kill
_IN_A_ROW = 0.25  # so many kills follow the one before, while the victims of that are about to recover
_START_S, _SHORTLY_S = 8.0, 2.0  # a driver takes so long to start; the others recover sooner
_LONGEST_AWAY_S = 3.0
STARTS_AGAIN = (Victim.DRIVER, Victim.DRIVER_AND_JVM, Victim.STOP)


@dataclass(frozen=True)
class Kill:
    """A SIGKILL."""

    victim: Victim
    delivered: int  # not before the group has delivered so many messages
    delay_s: float  # then this long
    away_s: float = 0.0  # how long Redis stays away

    def __str__(self) -> str:
        away = f", away for {self.away_s:.1f} s" if self.away_s else ""
        return f"{self.victim.value} {self.delay_s:.2f} s after message {self.delivered}{away}"


def plan(seed: int, kills: int, number: int, stops: int = 0, *, weights: Mapping[Victim, int] = WEIGHTS) -> list[Kill]:
    """Return so many kills, and stops, for a run with this number of messages; `weights` says how often who dies."""
    random = Random(f"kills {seed}")
    planned: list[Kill] = []
    places = sorted(random.uniform(0.01, _LATEST) * number for _ in range(kills))
    for place in places:
        victim = random.choices([*weights], [*weights.values()])[0]
        delivered, delay_s = int(place), random.uniform(0, 1)
        if planned and random.random() < _IN_A_ROW:
            longest = _START_S if planned[-1].victim in STARTS_AGAIN else _SHORTLY_S
            delivered, delay_s = planned[-1].delivered, random.uniform(0, longest)
        away_s = random.uniform(0, _LONGEST_AWAY_S) if victim is Victim.REDIS and random.random() < 0.5 else 0.0
        planned.append(Kill(victim, delivered, delay_s, away_s))
    planned += [
        Kill(Victim.STOP, int(random.uniform(0.01, _LATEST) * number), random.uniform(0, 1)) for _ in range(stops)
    ]
    return sorted(planned, key=lambda kill: kill.delivered)


def one_of_each(number: int) -> Sequence[Kill]:
    """Return a kill of a worker, of Redis and of a driver, long before the end of the run."""
    victims = (Victim.WORKER, Victim.REDIS, Victim.DRIVER_AND_JVM)
    return [Kill(victim, number * place // (len(victims) + 2), 0.1) for place, victim in enumerate(victims, 1)]
