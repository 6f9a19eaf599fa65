"""The actors of a simulation: coroutines that run one at a time, and give way at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import greenlet


class Crash(BaseException):
    """The process that an actor is was killed: no handler for errors sees it, and nothing it does has any effect."""


class TaskLost(BaseException):
    """The worker that ran a task has died; its driver lives on and runs the task again."""


class Process:
    """What is killed as a whole: a driver and the threads of its spouts, or an attempt that Spark has given up."""

    def __init__(self, driver: Process | None = None) -> None:
        """Start it; a worker that stays ends with its `driver`."""
        self.driver = driver
        self._is_killed = False

    @property
    def is_killed(self) -> bool:
        return self._is_killed or (self.driver is not None and self.driver.is_killed)

    @is_killed.setter
    def is_killed(self, is_killed: bool) -> None:
        self._is_killed = is_killed

    def is_of(self, process: Process) -> bool:
        """Return whether it ends if another one does."""
        return process in (self, self.driver)


class Actor(greenlet.greenlet):
    """Something that runs by itself once it is first chosen: a process, or a thread of one."""

    def __init__(self, name: str, body: Callable[[], Any], process: Process | None = None) -> None:
        """Create it; without a `process` it is one of its own, and its main thread."""
        super().__init__()
        self.name = name
        self.is_main = process is None
        self.process = process or Process()
        self.failure: BaseException | None = None
        self.is_waiting = False  # for another actor: it has nothing to do until that one has run
        self._body = body

    @property
    def is_killed(self) -> bool:
        return self.process.is_killed

    @is_killed.setter
    def is_killed(self, is_killed: bool) -> None:
        self.process.is_killed = is_killed

    def run(self) -> None:
        try:
            self._body()
        except Crash:
            self.is_killed = True
        except BaseException as error:
            self.failure = error
