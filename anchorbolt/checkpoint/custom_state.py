"""The checkpoint of a custom `State`: in the task, and on the driver.

Each custom state has a namespace of Anchorbolt beside it, in the same provider and without entries. The task starts an
attempt in that namespace before it calls the user's `prepare_commit`, and seals the attempt afterwards. So decision,
fences and recovery treat a custom state like any other. The driver commits the user's state first, then the namespace.
Until the namespace has committed, recovery repeats the user's commit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from anchorbolt.errors import AnchorboltError, StateError, StateRegressed
from anchorbolt.state_backends.attempt import AttemptView, TaskNamespace
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.state import AttemptScope, AttemptState, State
from anchorbolt.util.messages import user_traceback

CUSTOM_HEADER = "custom state"
"""Format header of a namespace beside a custom state."""


class CustomTaskState(AttemptView):
    """A user's state in a task."""

    def __init__(self, state: State, storage: StateStorage) -> None:
        self.state = state
        self._namespace = storage.namespace
        self._attempt = TaskNamespace(storage, CUSTOM_HEADER)
        self._prepared: tuple[int, str] | None = None

    def begin(self, scope: AttemptScope, winner: str = "") -> None:
        """Start a round; `winner` is the attempt that won the round if COMMIT follows, otherwise empty.

        Raises `Fenced` if a newer driver or round uses the namespace, and `StateRegressed` if the namespace or the
        user's state lacks a transaction that the driver knows to be committed.
        """
        self._attempt.begin(scope)
        self._attempt.check_head()
        if isinstance(self.state, AttemptState):
            try:
                self._call("begin", scope)
            except StateRegressed:
                if not winner:
                    raise
                # The driver died between the user's commit and the namespace's: the user's state is at this txid.
                self._call("begin", replace(scope, committed=scope.txid, winner=winner))
        elif self._prepared == (scope.committed, scope.winner):
            self._call("commit", scope.committed)
        self._prepared = None

    def prefetch(self, keys: Iterable[Any], *, are_distinct: bool = False) -> None:
        """Do nothing: only the user's class knows its entries."""

    def prepare_commit(self, txid: int) -> None:
        """Call the user's `prepare_commit` within an attempt of the namespace."""
        if self._attempt.seal is None:
            self._attempt.stage_nothing()
        started = perf_counter()
        try:
            self._call("prepare_commit", txid)
        finally:
            self.counters.note("stage", started)
        self._attempt.seal_staged(txid)
        self._prepared = (txid, self._attempt.scope.attempt)

    def close(self) -> None:
        try:
            self._call("close")
        finally:
            self._attempt.close()

    def _call(self, name: str, *arguments: Any) -> None:
        _call(self._namespace, self.state, name, *arguments)


def commit_custom(state: State, storage: StateStorage, fence: Fence, txid: int, attempt: str) -> None:
    """Commit a decided attempt on the driver; may be repeated. Raises as `StateStorage.commit`, and `StateError`."""
    head = storage.raise_fence(fence)  # from now on, drivers with a lower fence are refused
    staged = head.attempts.get(attempt)
    if (head.committed, head.winner) != (txid, attempt) and staged is not None and staged.seal is not None:
        if isinstance(state, AttemptState):
            _call(storage.namespace, state, "commit_attempt", txid, attempt)
        else:
            _call(storage.namespace, state, "commit", txid)
    storage.commit(fence, txid, attempt)  # raises if the attempt is not staged


def can_be_divided(state: State) -> bool:
    """Whether a state can be divided among other tasks: its class has `split` and `merge`."""
    return isinstance(state, AttemptState) and all(
        getattr(type(state), name) is not getattr(AttemptState, name) for name in ("split", "merge")
    )


def divide_custom(
    old: Mapping[str, State], new: Mapping[str, State], scopes: Mapping[str, AttemptScope], txid: int
) -> None:
    """Let the states of a bolt's new tasks prepare the content of its old ones; by namespace, in their order.

    `scopes` has an attempt for each namespace. Raises `StateError` if a method of the states raises.
    """
    parts = []
    for name, state in old.items():
        _call(name, state, "begin", scopes[name])
        parts.append(list(_call(name, state, "split", len(new))))
        if len(parts[-1]) != len(new):
            raise StateError(
                f"{type(state).__qualname__}.split({len(new)}) of {name!r} returned {len(parts[-1])} parts. Return one "
                "for each task.",
                namespace=name,
            )
    for index, (name, state) in enumerate(new.items()):
        _call(name, state, "begin", scopes[name])
        _call(name, state, "merge", [each[index] for each in parts])
        _call(name, state, "prepare_commit", txid)


def roll_back_custom(state: State, storage: StateStorage, fence: Fence) -> None:
    """Drop the attempts of lower fences, on the driver; may be repeated."""
    storage.raise_fence(fence)
    if isinstance(state, AttemptState):
        _call(storage.namespace, state, "drop_attempts", fence)
    else:
        _call(storage.namespace, state, "rollback")
    # Last: while the namespace holds an attempt, a starting driver rolls back again.
    storage.rollback(fence)


def _call(namespace: str, state: State, name: str, *arguments: Any) -> Any:
    try:
        return getattr(state, name)(*arguments)
    except AnchorboltError:
        raise
    except Exception as error:
        raise StateError(
            f"{user_traceback(error)}\n\nraised by {type(state).__module__}.{type(state).__qualname__}.{name} of the "
            f"custom state {namespace!r}. Fix it. If its store is away, raise StateUnavailable: then the run waits.",
            namespace=namespace,
        ) from error
