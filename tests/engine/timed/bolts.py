"""The bolt that the tests of timers extend."""

from typing import Any

from anchorbolt.bolts import Timers
from tests.engine.jobs import StatefulBolt


class TimedBolt(StatefulBolt):
    """Keeps its collector, its state and its timers."""

    def init_timers(self, timers: Timers[Any]) -> None:
        self.timers = timers
