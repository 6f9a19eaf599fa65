"""The hosts of a simulation's rich spouts: the real ones, but their thread is an actor of the process that has them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.sources.hosted_spout import Step
from anchorbolt.engine.sources.spout_host import SpoutHost
from anchorbolt.engine.workers import hosted_spouts
from anchorbolt.engine.workers.hosted_spouts import _Host

if TYPE_CHECKING:
    from tests.simulation.world import World


class _Stepped(SpoutHost):
    """See `SpoutHost`. Where that waits, another actor runs."""

    _world: World
    _has_ended = True  # no thread has begun

    def start(self) -> None:
        self._has_ended = False
        component, index = self.task
        self._world.start_thread(f"{component}-{index}", self._run_and_end)

    def wait_until_open(self) -> None:
        while not self._opened.is_set():
            self._world.wait(f"waits until {self.task} is open")
        super().wait_until_open()

    def close(self, timeout_s: float) -> bool:
        self._closing = True
        self.drain()
        while timeout_s and not self._has_ended and not self._world.is_unwinding:
            self._world.wait(f"waits until {self.task} has ended")
        return self._has_ended

    def _run_and_end(self) -> None:
        self._world.step("starts")
        try:
            self._run()
        finally:
            self._has_ended = True

    def _take_step(self) -> None:
        step = self.step()
        if step in (Step.EMPTY, Step.HELD):
            self._world.wait(step.value)
        else:
            self._world.step(step.value)


class SteppedHost(_Stepped):
    """A task in the driver."""

    def __init__(
        self,
        world: World,
        plan: ExecutionPlan,
        task: TaskKey,
        flow: FlowControl,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(plan, task, flow, clock, on_change)
        self._world = world


class SteppedWorkerHost(_Stepped, _Host):
    """A task in a worker that stays."""

    def __init__(
        self, world: World, plan: ExecutionPlan, task: TaskKey, flow: FlowControl, on_change: Callable[[TaskKey], None]
    ) -> None:
        super().__init__(plan, task, flow, on_change)
        self._world = world
        self._thread: Any = SimpleNamespace(is_alive=lambda: not self._has_ended)


class Watch:
    """The thread in a worker that tells the driver what has changed."""

    def __init__(self, world: World, target: Callable[[], None], **_: Any) -> None:
        self.start = partial(world.start_thread, "watch", target)


class Closed:
    """The event that ends the watch."""

    def __init__(self, world: World) -> None:
        self._world, self._is_set = world, False

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout_s: float) -> bool:
        self._world.wait("watches the spouts")
        return self._is_set


def in_one_thread(world: World) -> AbstractContextManager[Any]:
    """Have workers use the world's clock, and actors for threads."""
    threads = SimpleNamespace(Lock=Lock, Event=partial(Closed, world), Thread=partial(Watch, world))
    time, host = SimpleNamespace(monotonic=world.clock), partial(SteppedWorkerHost, world)
    return mock.patch.multiple(hosted_spouts, threading=threads, time=time, _Host=host)
