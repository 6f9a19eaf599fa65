"""How a user's own `State` takes part in the checkpoint: its side in the task, and its side on the driver.

Beside it stands a namespace of ours, in the same provider, that holds no entries. The task starts an attempt there
before it lets the user's state prepare, and seals it behind; so the decision, the fences and the recovery know of a
custom state what they know of any other, and are the same code. The driver moves the user's state first and its
namespace behind it: as long as the namespace has not committed, the user's commit is repeated.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from anchorbolt.errors import AnchorboltError, StateError, StateRegressed
from anchorbolt.state_backends.attempt import NamespaceAttempt, StateCounters
from anchorbolt.state_backends.contract import Fence, Seal, StateStorage
from anchorbolt.state_backends.scope import AttemptScope
from anchorbolt.state_backends.state import AttemptState, State

CUSTOM_HEADER = "custom state"
"""Format header of a namespace that stands beside a custom state."""


class CustomTaskState:
    """A user's state as a task's executor uses it, wave by wave.

    Attributes:
        state: The user's object, which the bolt gets.
    """

    def __init__(self, state: State, storage: StateStorage) -> None:
        """Use `state` beside its namespace."""
        self.state = state
        self._namespace = storage.namespace
        self._attempt = NamespaceAttempt(storage, CUSTOM_HEADER)
        self._prepared: tuple[int, str] | None = None

    @property
    def counters(self) -> StateCounters:
        """Nothing is read or staged in the namespace."""
        return self._attempt.counters

    @property
    def seal(self) -> Seal | None:
        """What was sealed in this wave."""
        return self._attempt.seal

    @property
    def committed(self) -> int:
        """The committed txid that this wave is based on."""
        return self._attempt.scope.committed

    def begin(self, scope: AttemptScope, decided: str = "") -> None:
        """Start a wave.

        Args:
            scope: On whose behalf.
            decided: For a hook after the decision, the attempt that won `scope.txid`: a driver may have died between
                the user's commit and the namespace's, so that the user's state is further on.

        Raises:
            Fenced: A newer driver or round has taken over.
            StateRegressed: The namespace, or the user's state, is not where the driver knows it to be.
        """
        self._attempt.begin(scope)
        self._attempt.check_head()
        state = self.state
        if isinstance(state, AttemptState):
            try:
                self._call("begin", lambda: state.begin(scope))
            except StateRegressed:
                if not decided:
                    raise
                further = replace(scope, committed=scope.txid, winner=decided)
                self._call("begin", lambda: state.begin(further))
        elif self._prepared == (scope.committed, scope.winner):
            self._call("commit", lambda: state.commit(scope.committed))
        self._prepared = None

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Nothing to fetch: only the user knows what the state consists of."""

    def prepare_commit(self, txid: int) -> None:
        """Have the user's state prepare, within an attempt of the namespace."""
        if self._attempt.seal is None:
            self._attempt.stage_nothing()
        self._call("prepare_commit", lambda: self.state.prepare_commit(txid))
        self._attempt.seal_staged(txid)
        self._prepared = (txid, self._attempt.scope.attempt)

    def close(self) -> None:
        """Close both."""
        try:
            self._call("close", self.state.close)
        finally:
            self._attempt.close()

    def _call(self, name: str, act: Callable[[], None]) -> None:
        _call(self._namespace, self.state, name, act)


def commit_custom(state: State, storage: StateStorage, fence: Fence, txid: int, attempt: str) -> None:
    """Commit a decided attempt on the driver; may be repeated. Raises as `StateStorage.commit`, and `StateError`."""
    head = storage.raise_fence(fence)  # from here on nobody with a lower fence gets any further
    staged = head.attempts.get(attempt)
    if (head.committed, head.winner) != (txid, attempt) and staged is not None and staged.seal is not None:
        if isinstance(state, AttemptState):
            _call(storage.namespace, state, "commit_attempt", lambda: state.commit_attempt(txid, attempt))
        else:
            _call(storage.namespace, state, "commit", lambda: state.commit(txid))
    storage.commit(fence, txid, attempt)  # refuses what was not staged


def roll_back_custom(state: State, storage: StateStorage, fence: Fence) -> None:
    """Drop on the driver what was prepared under a lower fence; may be repeated."""
    storage.raise_fence(fence)
    if isinstance(state, AttemptState):
        _call(storage.namespace, state, "drop_attempts", lambda: state.drop_attempts(fence))
    else:
        _call(storage.namespace, state, "rollback", state.rollback)
    # Behind it: as long as the namespace holds an attempt, a starting driver rolls back again.
    storage.rollback(fence)


def _call(namespace: str, state: State, name: str, act: Callable[[], None]) -> None:
    try:
        act()
    except AnchorboltError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error)).rstrip()
        raise StateError(
            f"{text}\n\nraised by {type(state).__module__}.{type(state).__qualname__}.{name}, of the custom state "
            f"{namespace!r}. Mend it; raise StateUnavailable where its store cannot be reached, so that it is waited "
            "for.",
            namespace=namespace,
        ) from error
