"""Measures how large the committed state of each task is, on a thread of its own.

It asks the store for numbers that are cheap: `StateStorage.count` and `StateStorage.size`. Redis and a store in memory
keep both. SQLite keeps the bytes and counts the keys in 50 to 200 ns each. HBase would have to send all rows, so it
reports neither. Tasks cannot count keys instead: a bolt puts a key without knowing whether it is new.

Nothing is measured until the page or Prometheus needs it. After each measurement the thread rests at least 15 seconds,
and long enough that measuring takes at most 1 % of a core and keeps a connection busy for at most 10 % of the time.
Measuring raises no fence and holds no snapshot between two tasks, and no wave waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.driver.committed_state import is_of_own_class
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.observe.figures.state_sizes import MeasuredSizes, Size, StateSizes

_log = logging.getLogger("anchorbolt.engine")

_EVERY_S = 15.0
_SHARE_OF_CORE = 100
_SHARE_OF_TIME = 10  # beside a thread that computes, this thread mostly waits for Python's lock
_AGAIN_S = 60.0  # after the store did not answer
_END_S = 2.0


class SizeMeter:
    """Measures from `start` to `close`. Thread-safe."""

    def __init__(
        self,
        plan: ExecutionPlan,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Begin with no measurement. The clocks return seconds; `cpu_clock` the CPU time of the calling thread."""
        self._plan = plan
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._sizes = StateSizes()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to measure. Does nothing if it has begun; after `close`, measures once."""
        with self._lock:
            if self._thread is None:
                work, name = self.run, "anchorbolt-state-sizes"
                self._thread = threading.Thread(target=work, args=(self._closing.wait,), name=name, daemon=True)
                self._thread.start()

    def measured(self) -> MeasuredSizes:
        """Return the latest sizes. Never waits for the store."""
        return self._sizes.measured(self._clock())

    def close(self) -> None:
        """Measure once more if that is cheap, and end the thread; wait for it for at most 2 seconds."""
        with self._lock:
            self._closing.set()
            thread = self._thread
        if thread is not None:
            thread.join(_END_S)

    def run(self, wait: Callable[[float], object]) -> None:
        """Measure until `close`; `wait` is called with the seconds until the next measurement."""
        rest_s = _EVERY_S
        while not self._closing.is_set():
            rest_s = self._measure(self._closing.is_set)
            wait(rest_s)
        if rest_s == _EVERY_S:  # measuring is cheap: get the sizes at the run's end
            self._measure(lambda: False)

    def _measure(self, ends: Callable[[], bool]) -> float:
        """Measure all tasks, and return the seconds to rest."""
        began, began_cpu = self._clock(), self._cpu_clock()
        sizes: dict[TaskKey, Size] = {}
        try:
            for namespace, task in self._plan.wiring.namespaces.items():
                if ends():
                    break
                sizes[task] = self._size(namespace)
            else:
                self._sizes.add(sizes, self._clock())
        except Exception:  # from the store; the run reports the error itself
            _log.debug("the sizes of the states could not be measured", exc_info=True)
            return _AGAIN_S
        took_s, computed_s = self._clock() - began, self._cpu_clock() - began_cpu
        return max(_EVERY_S, _SHARE_OF_TIME * took_s, _SHARE_OF_CORE * computed_s)

    def _size(self, namespace: str) -> Size:
        with closing(self._plan.provider.open(namespace)) as storage:
            if is_of_own_class(self._plan, storage):
                return Size(None, None)
            return Size(storage.count(), storage.size())
