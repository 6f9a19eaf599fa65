"""Whether the waves of a run are paused. Pure, apart from waiting."""

import threading
from enum import Enum


class _Phase(Enum):
    OFF = "off"
    PAUSING = "pausing"  # waves may still run, for messages and batches in flight
    CEASED = "ceased"
    CLOSED = "closed"  # the run is to end: it cannot be paused any more


class Pause:
    """The pause of a run's waves.

    ```
    OFF ──begin──▶ PAUSING ──cease──▶ CEASED        any ──close──▶ CLOSED
     ▲                │                 │
     └──────end───────┴───────end───────┘
    ```

    Thread-safe. A move that is not drawn changes nothing.
    """

    def __init__(self) -> None:
        self._phase = _Phase.OFF
        self._changed = threading.Condition()

    @property
    def is_on(self) -> bool:
        """Whether no source is to be asked for more."""
        return self._phase in (_Phase.PAUSING, _Phase.CEASED)

    @property
    def has_ceased(self) -> bool:
        """Whether no wave runs, nor begins before the end of the pause."""
        return self._phase is _Phase.CEASED

    @property
    def is_closed(self) -> bool:
        """Whether the run is to end."""
        return self._phase is _Phase.CLOSED

    def begin(self) -> None:
        """Pause the run."""
        self._move([_Phase.OFF], _Phase.PAUSING)

    def cease(self) -> None:
        """Note that no wave runs, and that none begins before the end of the pause."""
        self._move([_Phase.PAUSING], _Phase.CEASED)

    def end(self) -> None:
        """Resume the run."""
        self._move([_Phase.PAUSING, _Phase.CEASED], _Phase.OFF)

    def close(self) -> None:
        """End the pause for good, because the run is to end."""
        self._move(list(_Phase), _Phase.CLOSED)

    def wait_until_ceased(self, timeout: float | None) -> bool:
        """Wait until the waves have ceased or the pause has ended; return False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._phase is not _Phase.PAUSING, timeout)

    def wait_until_over(self) -> None:
        """Wait until the pause has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_on)

    def _move(self, sources: list[_Phase], target: _Phase) -> None:
        with self._changed:
            if self._phase in sources:
                self._phase = target
                self._changed.notify_all()
