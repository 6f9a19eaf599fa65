"""The kind of transactional topology that a seed simulates."""

from dataclasses import dataclass
from enum import Enum

from tests.simulation.choices import Choices

MOST_PENDING = 10


class SpoutKind(Enum):
    """What its spout is, and what it promises of a batch that is tried again."""

    PARTITIONED = "partitioned"
    OPAQUE = "opaque partitioned"
    WHOLE = "transactional"
    COMMITTER = "transactional, with committing emitters"

    @property
    def is_opaque(self) -> bool:
        return self is SpoutKind.OPAQUE

    @property
    def is_partitioned(self) -> bool:
        return self in (SpoutKind.PARTITIONED, SpoutKind.OPAQUE)


class Shape(Enum):
    """Which bolts are behind the early ones."""

    FULL = "committers of all kinds, and a bolt below them"
    OUTSIDE = "a committer that updates an outside store"
    STATEFUL = "a stateful committer alone"
    EARLY = "no committer"


@dataclass(frozen=True)
class BatchScenario:
    """What stays the same over all drivers of a simulation."""

    kind: SpoutKind
    shape: Shape
    emitters: int  # tasks of the spout
    takes_opaque_map: bool  # what the outside store's values are; of an opaque spout always these
    partitions: int
    rows: int  # of all partitions
    has_poison: bool  # a row on which a bolt fails each time: its batch becomes a dead letter
    is_slow: bool  # the processing phases: an actor gets ahead of them

    @property
    def has_outside(self) -> bool:
        """Whether an outside store is updated, which nothing fences: no two drivers at a time."""
        return self.shape is Shape.OUTSIDE


def batch_scenario(choices: Choices) -> BatchScenario:
    """Choose a scenario."""
    kind = list(SpoutKind)[choices.pick(len(SpoutKind))]
    return BatchScenario(
        kind=kind,
        shape=list(Shape)[choices.pick(7) % len(Shape)],
        emitters=1 + choices.pick(2),
        takes_opaque_map=kind.is_opaque or choices.pick(2) == 1,
        partitions=1 + choices.pick(3) if kind.is_partitioned else 1,
        rows=3 + choices.pick(10),
        # An opaque batch cannot be left out: nobody knows what it would have held the next time.
        has_poison=not kind.is_opaque and choices.pick(5) == 1,
        is_slow=choices.pick(3) == 1,
    )
