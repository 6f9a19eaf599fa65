"""The order in which the actors of a simulation run: one at a time, each up to its next step."""

from __future__ import annotations

import greenlet

from tests.simulation.actors import Actor, Crash
from tests.simulation.choices import Choices


class Schedule:
    """Runs the actors. It is itself in the greenlet that made it."""

    def __init__(self, choices: Choices) -> None:
        self.actors: list[Actor] = []
        self.current: Actor | None = None  # that runs
        self._choices = choices
        self._scheduler = greenlet.getcurrent()

    def start(self, actor: Actor) -> None:
        """Have an actor run once it is chosen."""
        actor.parent = self._scheduler  # which is to go on when it ends, not the actor that started it
        self.actors.append(actor)

    def give_way(self) -> None:
        """Let another actor run, called by the one that runs."""
        self._scheduler.switch()

    def turn(self, actor: Actor) -> None:
        """Let an actor run up to its next step, or to its end."""
        self.current = actor
        try:
            actor.switch()
        finally:
            self.current = None
        if actor.dead:
            self.actors.remove(actor)

    def next(self, last: Actor | None) -> Actor:
        """Choose who runs after `last`."""
        actors, choices = self.actors, self._choices
        if last is None or last not in actors:
            return actors[choices.pick(len(actors))]
        if last.is_waiting:
            last.is_waiting = False
            others = len(actors) - 1
            return actors[(actors.index(last) + 1 + choices.pick(others)) % len(actors)] if others else last
        if len(actors) > 1 and choices.happens(0.15):
            return actors[choices.pick(len(actors))]
        return last

    def end(self, actors: list[Actor]) -> None:
        """End some actors at once."""
        for actor in actors:
            actor.is_killed = True
            if actor:  # it has begun
                actor.throw(Crash)
            if actor in self.actors:
                self.actors.remove(actor)
