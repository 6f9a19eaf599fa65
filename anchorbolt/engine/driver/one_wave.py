"""A lock that is held during a wave."""

import threading
from collections import deque


class OneWave:
    """A lock that goes to the one who has waited longest: neither the query's waves nor the pump's shut out the other.

    Use it as a context manager, like `threading.Lock`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the holder, and behind it those that wait

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for the lock at most `timeout` seconds; return whether it was acquired."""
        ticket, acquired = object(), False
        with self._changed:
            self._queue.append(ticket)
            try:
                acquired = self._changed.wait_for(lambda: self._queue[0] is ticket, timeout)
            finally:
                if not acquired:  # too late, or interrupted by Ctrl-C
                    self._queue.remove(ticket)
                    self._changed.notify_all()
            return acquired

    def release(self) -> None:
        """Let the next one have it."""
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
