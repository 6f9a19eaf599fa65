"""The world of one simulation of a transactional topology."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anchorbolt.bolts import FailedException
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.faults.points import FaultPoint
from tests.simulation.choices import Choices
from tests.simulation.scenarios import Scenario
from tests.simulation.transactional.invariants import BatchInvariants
from tests.simulation.transactional.outside import OutsideStore
from tests.simulation.transactional.scenario import MOST_PENDING, batch_scenario
from tests.simulation.transactional.source import Source
from tests.simulation.world import World


class BatchWorld(World):
    """The source and the outside store outlive all drivers, too."""

    points = World.points | {
        FaultPoint.BATCH_BEGUN,
        FaultPoint.METADATA_STORED,
        FaultPoint.HAND_OFF_WRITTEN,
        FaultPoint.BATCH_PROCESSED,
    }
    risky_calls: Mapping[str, float] = {**World.risky_calls, "write": 0.03}

    def __init__(
        self, choices: Choices, drive: Callable[[Any, str], None], scenario: Scenario, *, traced: bool = False
    ) -> None:
        super().__init__(choices, drive, scenario, traced=traced)
        self.batch_scenario = batch_scenario(choices)
        self.faults_left += choices.pick(6)
        self.source = Source(self, self.batch_scenario)
        self.outside_store = OutsideStore(self)
        self.checks = self.invariants = BatchInvariants(self, self.source, self.batch_scenario)
        self.most_pending = 0  # of all drivers so far
        self.has_late_attempts = False
        self._marks = itertools.count(1)
        self.say(f"{self.batch_scenario}, {self.source.lengths}")

    @property
    def is_done(self) -> bool:
        return self.has_ended_well and self.checks.is_exhausted

    @property
    def is_late(self) -> bool:
        """Whether an attempt runs that nobody listens to."""
        return self.schedule.current is not None and self.schedule.current.name.startswith("late")

    def new_pending(self) -> int:
        """Return `topology.max.spout.pending` of a driver."""
        pending = (2, 1, 3, 4, MOST_PENDING, 1 + self.choices.pick(MOST_PENDING))[self.choices.pick(6)]
        self.most_pending = max(self.most_pending, pending)
        self.say(f"{pending} batches may be pending")
        return pending

    @property
    def dead_letter(self) -> Any:
        """`topology.dead.letter`."""
        return self._write_letters if self.batch_scenario.has_poison else None

    def _write_letters(self, letters: Sequence[DeadLetter], txid: int) -> None:
        self.step(f"writes {len(letters)} dead letters of batch {txid}")
        self.checks.has_letters(txid, letters)

    def next_mark(self) -> int:
        return next(self._marks)

    def may_fail(self, who: str) -> None:
        """What a bolt, an emitter or the coordinator calls in its hooks: it sometimes fails there."""
        if self.strikes(0.004):
            self.say(f"{who} fails its batch")
            raise FailedException(f"simulated: {who} fails")

    def start_late_attempt(self, name: str, work: Callable[[], Any]) -> None:
        """Also of an emitter, but not where it updates the outside store, which cannot refuse it."""
        if not name.startswith("outside"):
            self.has_late_attempts = True
            super().start_late_attempt(name, work)

    def outside(self) -> None:
        if not self.batch_scenario.has_outside and self.strikes(0.003):
            self.start_driver()
