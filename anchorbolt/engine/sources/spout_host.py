"""Hosts a task of a rich spout on its own thread, which makes all calls to the spout."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.sources.hosted_spout import HostedSpout, Step
from anchorbolt.engine.task.watchdog import watched
from anchorbolt.errors import AnchorboltError
from anchorbolt.tracking.settlements import FailedMessage

_log = logging.getLogger("anchorbolt.engine")

_HELD_S = 0.1  # between two checks whether the spout may emit; most changes wake the thread at once
_PAUSE_S = 0.001  # after a `next_tuple` that emitted nothing


class SpoutHost(HostedSpout):
    """One task of a rich spout and its thread. The driver's threads call the methods of this object."""

    def __init__(
        self,
        plan: ExecutionPlan,
        task: TaskKey,
        flow: FlowControl,
        clock: Callable[[], float],
        on_change: Callable[
            [], None
        ],  # called when the first tuple of a wave waits, and when the spout fails or drains
    ) -> None:
        super().__init__(plan, task, flow, clock)
        self.failure: AnchorboltError | None = None
        self._on_change = on_change
        self._changed = threading.Condition()
        self._closing = False
        self._opened = threading.Event()
        component, index = task
        self._thread = threading.Thread(target=self._run, name=f"anchorbolt-spout-{component}-{index}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_until_open(self) -> None:
        """Wait until the spout is open and active. Raises `SpoutError` if it could not be opened."""
        self._opened.wait()
        if self.failure is not None:
            raise self.failure

    def wake(self) -> None:
        """Make the thread check again whether the spout may emit."""
        with self._changed:
            self._changed.notify_all()

    def settle(self, acked: Sequence[Any], failed: Sequence[FailedMessage]) -> None:
        super().settle(acked, failed)
        self.wake()

    def pause(self) -> None:
        super().pause()
        self.wake()

    def resume(self) -> None:
        super().resume()
        self.wake()

    def drain(self) -> None:
        super().drain()
        self.wake()

    def close(self, timeout_s: float) -> bool:
        """Make the spout's thread call `deactivate` and `close`; return whether it has ended within `timeout_s`."""
        self._closing = True
        self.drain()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with watched(self._plan, self.task, "spout"):
                self.open()
                self._opened.set()
                while not self._closing:
                    self._take_step()
                self.end()
        except AnchorboltError as error:
            self.failure = error
            self._close_failed()
        except BaseException as error:  # such as asyncio's CancelledError: if the thread ends, the run must end
            self.failure = self.error_of(error, "a call")
            self._close_failed()
        finally:
            self._opened.set()
            self._on_change()

    def _close_failed(self) -> None:
        """Close the connections of a spout that has raised."""
        try:
            self.close_spout()
        except BaseException as error:
            fields = dict(zip(("component", "task"), self.task, strict=True))
            _log.warning("spout %r, task %d has failed, and so does its close: %r", *self.task, error, extra=fields)

    def _take_step(self) -> None:
        step = self.step()
        if step is Step.BEGAN:
            self._on_change()
        elif step is Step.EMPTY:
            with self._changed:
                if not (self._settled or self._closing):
                    self._changed.wait(_PAUSE_S)
        elif step is Step.HELD:
            if self.is_drained:
                self._on_change()
            with self._changed:
                if not (self._settled or self._closing or self.may_emit):
                    self._changed.wait(_HELD_S)
