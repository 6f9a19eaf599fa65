"""The actors of a simulation: coroutines that run one at a time, and give way at every step."""

from collections.abc import Callable
from typing import Any

import greenlet


class Crash(BaseException):
    """The process that an actor is was killed: no handler for errors sees it, and nothing it does has any effect."""


class Actor:
    """Something that runs by itself: a driver, or an attempt of a task that Spark has given up."""

    def __init__(self, name: str, body: Callable[[], Any]) -> None:
        """Make an actor; `body` starts when it is first chosen."""
        self.name = name
        self.is_dead = False
        self.failure: BaseException | None = None
        self._body = body
        self.coroutine = greenlet.greenlet(self._run)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, by itself or by a crash."""
        return bool(self.coroutine.dead)

    def _run(self) -> None:
        try:
            self._body()
        except Crash:
            self.is_dead = True
        except BaseException as error:
            self.failure = error


class Stage:
    """Where the actors take turns."""

    def __init__(self) -> None:
        self._scheduler = greenlet.getcurrent()
        self.actors: list[Actor] = []
        self._current: Actor | None = None

    @property
    def current(self) -> Actor | None:
        """Who runs; None for the scheduler itself."""
        return self._current

    def add(self, actor: Actor) -> None:
        """Have an actor take part from the next turn on."""
        self.actors.append(actor)

    def turn(self, actor: Actor) -> None:
        """Let an actor run up to its next step, or to its end."""
        self._current = actor
        try:
            actor.coroutine.switch()
        finally:
            self._current = None
        if actor.is_over:
            self.actors.remove(actor)

    def give_way(self) -> None:
        """Called by an actor at a step: others may run before it goes on."""
        actor = self._current
        assert actor is not None
        self._scheduler.switch()
        if actor.is_dead:
            raise Crash
