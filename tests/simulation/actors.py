"""The actors of a simulation: coroutines that run one at a time, and give way at every step."""

from collections.abc import Callable
from typing import Any

import greenlet


class Crash(BaseException):
    """The process that an actor is was killed: no handler for errors sees it, and nothing it does has any effect."""


class Actor(greenlet.greenlet):
    """Something that runs by itself once it is first chosen: a driver, or an attempt that Spark has given up."""

    def __init__(self, name: str, body: Callable[[], Any]) -> None:
        super().__init__()
        self.name = name
        self.is_killed = False
        self.failure: BaseException | None = None
        self._body = body

    def run(self) -> None:
        try:
            self._body()
        except Crash:
            self.is_killed = True
        except BaseException as error:
            self.failure = error
