"""A state with time whose waves a test runs by hand."""

from typing import Any

from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.state_backends.timed.index import IndexClock
from anchorbolt.testing.conformance.base import entries


class Waves:
    """Waves of one namespace in memory."""

    def __init__(self, **options: Any) -> None:
        self._provider, self._options = MemoryStateProvider(), options
        self._fence = 0
        self._at = (-1, "")
        self._expiring = False
        self.open()

    def open(self) -> None:
        """Open the state as another process does."""
        self.state: KeyValueState[Any, Any] = KeyValueState(self._provider.open("t:count-0"), **self._options)
        self.timers = self.state.timed.timers

    def begin(self, clock: int, watermark: int | None = None) -> None:
        self._fence += 1
        self._attempt = f"{self._fence:032x}"
        fence, txid = Fence(1, self._fence), self._at[0] + 1
        self.state.begin(AttemptScope(fence, txid, self._attempt, *self._at, clock, watermark, self._expiring))

    def commit(self) -> None:
        txid = self._at[0] + 1
        self.state.prepare_commit(txid)
        self._expiring = self.state.timed.next_due.expiry is not None
        if self.state.seal is not None:
            self.state.commit(txid)
            self._at = txid, self._attempt

    def put(self, clock: int, **options: Any) -> None:
        """Put the entry "a" in a wave of its own."""
        self.begin(clock)
        self.state.put("a", clock, **options)
        self.commit()

    def value(self, clock: int) -> Any:
        """Return the value of "a" in a wave that changes nothing."""
        self.begin(clock)
        found = self.state.get("a")
        self.commit()
        return found

    def fire(self, most: int = 100) -> list[tuple[Any, str, int]]:
        """Return the timers that fire now."""
        taken = self.state.timed.take_due(most)
        return [(timer.key, timer.name, timer.at) for timer in taken if self.timers.fire(timer)]

    def indexed(self) -> int:
        """Return the number of items in the index of entries that expire."""
        return self.state.timed._index.size(IndexClock.EXPIRY)

    def stored(self) -> dict[bytes, bytes]:
        return entries(self._provider.open("t:count-0"))
