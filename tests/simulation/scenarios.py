"""The kind of topology that a seed simulates, and what its messages meet in it."""

from dataclasses import dataclass
from enum import Enum

from tests.simulation.choices import Choices

_TRANSACTIONAL = 2
_RELIABLE = 3
_SCENARIOS = 4
_COMMIT_TASKS = range(3, 5)
_BLOCK = 8 * _SCENARIOS
_BLOCKS = 4
_WITH_WORKERS = 3  # of the blocks of seeds
_CHAINS = 7
_WITH_CHAINS = range(4, 6)  # of groups of all these blocks
_HOSTED = 2
_VARIANTS = 4
_MIXES = 8
_WITH_LOSSES = 3  # of the variants of a stream spout
VECTORISED_SEEDS = range(1 << 17, 1 << 19)
"""Seeds with vectorised bolts: in seven of eight blocks, one or more of the bolts that take lines."""
TIMED_SEEDS = range(5 << 17, 7 << 17)
"""Seeds with a bolt that has timers, TTLs and event time. None of them has a transactional topology."""
_LIMITS = (1, 3, 100, 100)
CACHE_ENTRIES, _LARGE_CACHE = 4, 40

RELIABLE_SEEDS = range(_RELIABLE, 1 << 32, _SCENARIOS)
"""The seeds whose topology has a rich spout."""
TRANSACTIONAL_SEEDS = range(_TRANSACTIONAL, 1 << 32, _SCENARIOS)
"""The seeds with a transactional topology."""
COMMIT_TASK_SEEDS = [seed for seed in range(1 << 14) if seed // _SCENARIOS % 8 in _COMMIT_TASKS]
"""Some of the seeds whose state is committed in tasks: a fourth of all, of every kind of topology."""

WORKER_SEEDS = [seed for seed in range(1 << 14) if seed // _BLOCK % _BLOCKS == _WITH_WORKERS]
"""Some of the seeds whose tasks run in workers that stay: a fourth of all, of every kind of topology."""

HOSTED_SEEDS = [seed for seed in WORKER_SEEDS if seed % _SCENARIOS == _RELIABLE and seed // _SCENARIOS % _HOSTED == 0]
"""Some of the seeds whose rich spouts are in these workers."""


CHAIN_SEEDS = [seed for seed in range(1 << 14) if seed // (_BLOCK * _BLOCKS) % _CHAINS in _WITH_CHAINS]
"""Some of the seeds with chained bolts: two sevenths of all, of every kind of topology."""


class Ids(Enum):
    """The message ids of a source."""

    NUMBERS = "stable numbers"
    MIXED = "stable: texts, and tuples that are equal in Python, two by two"
    UNSTABLE = "another one at each delivery"


class Fate(Enum):
    """What a message meets in the bolts. Those that fail do so a few times only, or until they are dead letters."""

    PLAIN = "acked in its wave"
    REFUSED = "the first bolt raises FailedException"
    HALF = "the first bolt raises FailedException when it has emitted"
    FAILED = "the last bolt calls collector.fail"
    LATE = "acked some waves later"
    PATIENT = "acked later than the time-out, which is reset"
    LATE_FAILED = "failed some waves later"
    FORGOTTEN = "never acked"
    POISON = "the first bolt raises FailedException each time"
    BROKEN = "the first bolt raises another exception each time"


_FOR_EVER = {Fate.POISON, Fate.BROKEN}


@dataclass(frozen=True)
class Scenario:
    """What stays the same over all drivers of a simulation."""

    has_stream: bool = True  # lines of a stream spout
    commits_in_tasks: bool = False  # as for a provider with `commit_carries_updates`
    is_transactional: bool = False  # see `tests.simulation.transactional`
    is_reliable: bool = False  # messages of a rich spout
    ids: Ids = Ids.NUMBERS
    excludes: bool = True  # `topology.fail.policy`
    keeps_letters: bool = False
    takes_acks_again: bool = False  # whether the source takes the ack of a message that it has not delivered again
    spouts: int = 1  # rich ones
    tasks: int = 1  # of each rich spout
    is_slow: bool = False  # the source, to take an ack
    max_pending: int | None = None
    loses_executors: bool = False
    workers: int = 0  # that stay; 0 if the tasks run as Spark's
    hosts_spouts: bool = False  # whether they have the rich spouts
    vectorised: frozenset[str] = frozenset()  # the vectorised bolts among those that take lines
    chains: bool = False  # whether some bolts are chained
    timers_per_wave: int = 0  # of a task; 0 for a topology without time

    @property
    def may_fail_for_good(self) -> bool:
        """Whether a bolt may fail a wave more often than a driver tries it."""
        return self.keeps_letters or self.is_transactional

    @property
    def is_timed(self) -> bool:
        """Whether there is a bolt with timers, TTLs and event time."""
        return self.timers_per_wave > 0

    @property
    def cache_entries(self) -> int:
        """How many entries all states of a worker cache together. More of them expire in a larger cache."""
        return _LARGE_CACHE if self.is_timed and not self.is_limited else CACHE_ENTRIES

    @property
    def is_limited(self) -> bool:
        """Whether more timers may be due than fire in one wave."""
        return self.timers_per_wave < max(_LIMITS)

    @property
    def is_stable(self) -> bool:
        return self.ids is not Ids.UNSTABLE

    @property
    def fates(self) -> list[Fate]:
        """What a message can meet, the ordinary first. Without a stable id, nobody knows how often it has failed."""
        return [fate for fate in Fate if (self.keeps_letters and self.is_stable) or fate not in _FOR_EVER]


def scenario_of(choices: Choices) -> Scenario:
    """Return the scenario of a seed. That of every second seed is the simplest one, and takes no other choice."""
    seed = choices.by_seed(1 << 20)
    mix, block, variant = seed // (_BLOCK * _BLOCKS) % _MIXES, seed // _BLOCK % _BLOCKS, seed % _BLOCK
    mix = mix if seed in VECTORISED_SEEDS else 0
    vectorised = frozenset(bolt for place, bolt in enumerate(("split", "count", "remember")) if mix >> place & 1)
    chains = seed // (_BLOCK * _BLOCKS) % _CHAINS in _WITH_CHAINS
    number, kind = divmod(variant, _SCENARIOS)
    workers = 2 + number % 2 if block == _WITH_WORKERS else 0
    in_tasks = number in _COMMIT_TASKS
    timers = _LIMITS[seed // _SCENARIOS % len(_LIMITS)] if seed in TIMED_SEEDS else 0
    if kind == _TRANSACTIONAL and not timers:
        return Scenario(
            has_stream=False, is_transactional=True, commits_in_tasks=in_tasks, workers=workers, chains=chains
        )
    if kind != _RELIABLE:
        loses = number % _VARIANTS == _WITH_LOSSES
        return Scenario(
            commits_in_tasks=in_tasks,
            loses_executors=loses,
            workers=workers,
            vectorised=vectorised,
            chains=chains,
            timers_per_wave=timers,
        )
    return Scenario(
        commits_in_tasks=in_tasks,
        has_stream=choices.pick(5) == 1 or timers > 0,
        is_reliable=True,
        ids=(Ids.NUMBERS, Ids.MIXED, Ids.UNSTABLE)[choices.pick(3)],
        excludes=choices.pick(3) != 1,
        keeps_letters=choices.pick(2) == 1,
        takes_acks_again=choices.pick(2) == 1,
        tasks=1 + choices.pick(2),
        is_slow=choices.pick(3) == 1,
        max_pending=(None, 1, 2, 3)[choices.pick(4)],
        spouts=1 + choices.pick(2),
        workers=workers,
        hosts_spouts=workers > 0 and number % _HOSTED == 0,
        vectorised=vectorised,
        chains=chains,
        timers_per_wave=timers,
    )
