"""The hosts of a simulation's rich spouts: the real ones, but their thread is an actor of the driver's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.sources.hosted_spout import Step
from anchorbolt.engine.sources.spout_host import SpoutHost

if TYPE_CHECKING:
    from tests.simulation.world import World


class SteppedHost(SpoutHost):
    """See `SpoutHost`. Where that waits, another actor runs."""

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
        self._has_ended = True  # no thread has begun

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
