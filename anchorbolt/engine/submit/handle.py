"""The handle of a running topology, which `submit` returns on every engine."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.spout import RecoveryReport
from anchorbolt.engine.driver.reports import WaveReport
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.errors import ConfigError, StateError
from anchorbolt.state_backends.encoding import EntryEncoding

_log = logging.getLogger("anchorbolt.engine")

_REPORTS_KEPT = 1000

WaveListener = Callable[[WaveReport], None]


class RunStatus(str, Enum):
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


class RunHandle:
    """A topology that was submitted. Thread-safe."""

    def __init__(self, plan: ExecutionPlan, listener: WaveListener | None = None) -> None:
        """Called by an engine; `listener` is called after each committed wave."""
        self._plan = plan
        self._listener = listener
        self._reports: deque[WaveReport] = deque(maxlen=_REPORTS_KEPT)
        self._ended = threading.Event()
        self._stop_requested = threading.Event()
        self._status = RunStatus.RUNNING
        self._failure: BaseException | None = None
        self._recovery: RecoveryReport | None = None

    @property
    def status(self) -> RunStatus:
        """RUNNING, STOPPED (by `stop`), FINISHED (the source was empty) or FAILED."""
        return self._status

    @property
    def reports(self) -> Sequence[WaveReport]:
        """The reports of the latest 1000 committed waves, oldest first."""
        return list(self._reports)

    @property
    def recovery(self) -> RecoveryReport | None:
        """The result of the driver's start; None before it."""
        return self._recovery

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the run, or None."""
        return self._failure

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, at most `timeout` seconds; return whether it has ended.

        Raises:
            AnchorboltError: The run failed with this error.
        """
        if not self._ended.wait(timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self, timeout: float | None = None) -> bool:
        """Finish the current wave, if any, and end the run; return whether it has ended.

        Waits at most `timeout` seconds, but not at all if an `on_wave` listener calls it. May be called repeatedly.
        """
        self._stop_requested.set()
        if not self._interrupt():
            return self._ended.is_set()
        return self._ended.wait(timeout)

    def state(self, component: str) -> dict[Any, Any]:
        """Read the committed state of all tasks of a stateful bolt into memory. For tests and small states.

        May be called while the topology runs, and after its end. While it runs, the tasks' states may belong to
        different waves.

        Raises:
            ConfigError: The topology has no such stateful bolt.
            StateError: The state has different keys that are equal in a dict, such as `1`, `1.0` and `True`;
                `state_items` yields them all.
        """
        entries: dict[Any, Any] = {}
        for key, value in self.state_items(component):
            if key in entries:
                raise StateError(
                    f"bolt {component!r} has several keys that are equal to {key!r} in a dict: 1, 1.0 and True are "
                    "different keys in the state. Read them with state_items(component)."
                )
            entries[key] = value
        return entries

    def state_items(self, component: str) -> Iterator[tuple[Any, Any]]:
        """Yield the committed entries of a stateful bolt, task by task, without reading them all at once.

        Raises:
            ConfigError: The topology has no such stateful bolt.
        """
        plan = self._plan
        if component not in plan.stateful_bolts:
            raise ConfigError(
                f"{component!r} is not a stateful bolt of {plan.topology!r}. Its stateful bolts: "
                f"{', '.join(plan.stateful_bolts) or 'none'}."
            )
        settings, schema = plan.settings, plan.state_schema(component)
        for index in range(plan.parallelism(component)):
            namespace = plan.namespace(component, index)
            encoding = EntryEncoding(namespace, settings.key_codec, settings.value_codec, schema)
            storage = plan.provider.open(namespace)
            try:
                if storage.head().codec == CUSTOM_HEADER:
                    raise StateError(
                        f"bolt {component!r} has a state of its own class, without entries. Read it with that class.",
                        namespace=namespace,
                    )
                for page in storage.scan():
                    for key_data, data in page:
                        yield encoding.entry_from(key_data, data)
            finally:
                storage.close()

    def _interrupt(self) -> bool:
        """Make the engine notice `_stop_requested`. Return True if the calling thread may wait for the end."""
        return True

    def _add(self, report: WaveReport) -> None:
        self._reports.append(report)
        if self._listener is not None:
            self._listener(report)

    def _end(self, failure: BaseException | None, *clean_ups: Callable[[], object]) -> None:
        """Clean up and end the run. Errors of `clean_ups` are logged, so that `await_termination` always returns."""
        for clean_up in clean_ups:
            try:
                clean_up()
            except Exception:
                _log.warning("the run has ended, but cleaning up failed", exc_info=True)
        if failure is not None:
            self._failure = failure
            self._status = RunStatus.FAILED
        else:
            self._status = RunStatus.STOPPED if self._stop_requested.is_set() else RunStatus.FINISHED
        self._ended.set()
