"""Counts the rounds of a simulation's waves, and what was lost in them, apart from the driver's own counting."""

from collections import Counter

from anchorbolt.checkpoint.ports import Round
from tests.simulation.actors import Process
from tests.simulation.violation import Violation

MAX_BATCH_RETRIES = 2


class Tries:
    """The tries of each driver. A driver's patience with losses is 0 s, so it bears one more than it has retries."""

    def __init__(self, *, may_repeat: bool) -> None:
        """Create it; `may_repeat` tells whether a round is repeated without the trees that failed."""
        self._may_repeat = may_repeat
        self._last: dict[Process, int] = {}  # the txid of each driver's last wave
        self._rounds: Counter[tuple[Process, int]] = Counter()
        self._losses: Counter[tuple[Process, int]] = Counter()

    def begun(self, process: Process, current: Round) -> None:
        """Note that a driver begins a round."""
        wave = process, current.txid
        self._last[process] = current.txid
        self._rounds[wave] += 1

    def lost(self, process: Process, txid: int) -> None:
        """Note that a round loses an executor."""
        self._losses[process, txid] += 1

    def given_up(self, process: Process) -> None:
        """Check the tries of a wave that a driver has given up because rounds of it failed."""
        if process not in self._last:
            return
        wave = process, self._last[process]
        most = MAX_BATCH_RETRIES + 1
        borne = min(self._losses[wave], MAX_BATCH_RETRIES + 1)
        repeats = borne if self._may_repeat else 0
        if not most + borne <= self._rounds[wave] <= 2 * most + repeats:
            raise Violation(f"a wave was given up after {self._rounds[wave]} rounds, {self._losses[wave]} with losses")
