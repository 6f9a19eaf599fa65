"""What timers do in cases that random calls seldom meet."""

from typing import Any

from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope


class Waves:
    """A state with timers whose waves all commit."""

    def __init__(self) -> None:
        self.state: KeyValueState[Any, Any] = KeyValueState(MemoryStateProvider().open("t:count-0"))
        self.timers = self.state.timed.timers
        self.txid = -1

    def begin(self, clock: int) -> None:
        before = (self.txid, f"{self.txid:032x}") if self.txid >= 0 else (-1, "")
        self.txid += 1
        self.state.begin(AttemptScope(Fence(1, self.txid + 1), self.txid, f"{self.txid:032x}", *before, clock))

    def commit(self) -> None:
        self.state.prepare_commit(self.txid)
        self.state.commit(self.txid)


def test_a_timer_that_was_cancelled_and_set_to_the_same_time_counts_once_in_the_limit_of_a_wave() -> None:
    waves = Waves()
    for step in ("set", "cancel", "set"):
        waves.begin(0)
        if step == "set":
            waves.timers.set("a", at=10)
        else:
            waves.timers.cancel("a")
        waves.commit()
    waves.begin(20)
    waves.timers.set("b", at=11)
    assert [(timer.key, timer.at) for timer in waves.state.timed.take_due(2)] == [("a", 10), ("b", 11)]
