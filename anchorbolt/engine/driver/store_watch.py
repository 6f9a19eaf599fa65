"""Checks twice a second that the store answers, and that no other driver has taken over the topology.

A wave notices both by itself, but late: a task repeats a call for seconds before it fails, and between two waves
nothing calls the store.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import AnchorboltError, StateUnavailable

PATIENCE_S = 0.7
"""Seconds for a short call of the store; the store counts as away if the call takes longer."""

_INTERVAL_S = 0.5
_END_S = 1.0


class StoreWatch:
    """Reads the generation of the topology's driver on a thread of its own, until it is closed."""

    def __init__(self, plan: ExecutionPlan, checkpoints: CheckpointCoordinator, on_loss: Callable[[], object]) -> None:
        """Watch the store for a coordinator, also while it recovers.

        `on_loss` is called once, on the thread, if the coordinator has lost the topology that it had claimed.
        """
        self._plan = plan
        self._checkpoints = checkpoints
        self._on_loss = on_loss
        self._generation: int | None = None
        self._closed = threading.Event()
        self._asked_at: float | None = None  # when the unanswered call began, by `time.monotonic`
        self.loss: AnchorboltError | None = None
        """`Fenced`, or `StateRegressed` if the store has lost this driver's writes; None while all is well."""
        self._thread = threading.Thread(target=self._run, name="anchorbolt-store-watch", daemon=True)
        self._thread.start()

    def claimed(self, generation: int) -> None:
        """Note that the coordinator has recovered with this generation."""
        self._generation = generation

    @property
    def waiting(self) -> Mapping[str, float]:
        """The store and the seconds for which it has not answered; empty if it answers."""
        asked_at = self._asked_at
        waited = 0.0 if asked_at is None or self._closed.is_set() else time.monotonic() - asked_at
        return {StateUnavailable.waits_for: waited} if waited > PATIENCE_S else {}

    def close(self) -> None:
        """Stop watching. Waits at most a second: a call of a store that is away continues without effect."""
        self._closed.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        storage = self._plan.provider.open(record_namespace(self._plan.wiring.prefix))
        log = DecisionLog(storage)  # of its own: the spout's log waits as long as the spout does
        try:
            while self.loss is None and not self._closed.wait(_INTERVAL_S):
                self._ask(log)
        finally:
            with suppress(Exception):  # the store may be away
                log.close()

    def _ask(self, log: DecisionLog) -> None:
        self._asked_at = self._asked_at or time.monotonic()
        try:
            generation = log.stored_generation()
        except StateUnavailable:
            return  # `_asked_at` stays the time of the first failure
        except Exception:  # the spout gets the same error, and reports it
            self._asked_at = None
            return
        self._asked_at = None
        if self._generation in (None, generation):
            return
        try:
            self._checkpoints.check_not_overtaken()
        except AnchorboltError as error:
            if not self._closed.is_set():
                self.loss = error
                self._on_loss()
