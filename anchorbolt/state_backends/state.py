"""`State`, Storm's interface of a state in the checkpoint, and `AttemptState`; also `Fence` and `AttemptScope`.

`docs/custom_state.md` says what a custom state guarantees with each of the two base classes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from anchorbolt.errors import StateError

NOTHING_COMMITTED = -1
"""The txid of a namespace in which nothing has been committed yet."""


class Fence(NamedTuple):
    """A driver's place in the order of writers: a store refuses a write with a lower fence than the namespace has."""

    generation: int  # a starting driver takes the next one (`StateStorage.claim`); the first is 1
    seq: int  # the driver raises it for each round, commit and rollback


NO_FENCE = Fence(0, 0)
"""The fence of a namespace that nobody has written to."""


@dataclass(frozen=True)
class AttemptScope:
    """The attempt that uses a state during one wave, and the committed state that the driver knows of."""

    fence: Fence
    txid: int
    attempt: str  # 32 hexadecimal digits
    committed: int = NOTHING_COMMITTED
    winner: str = ""  # the attempt that `committed` came from; empty if nothing is committed


class State(ABC):
    """A state that takes part in the three-phase checkpoint. All calls may be repeated for the same txid.

    A custom state has two objects at a time. The bolt works with the task's object, which prepares. The driver's object
    never sees an update; it commits or rolls back the data in the store. The next wave uses a task's object again only
    if it directly follows. After a kill, and if Spark runs a task twice, there may be several objects of each kind.
    """

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Persist all updates since the last commit so that `commit(txid)` can no longer fail for lack of data.

        Called in the task, at the end of every wave, also without updates. No other reader may see the updates before
        the commit. The call replaces everything that was prepared before.
        """

    @abstractmethod
    def commit(self, txid: int | None = None) -> None:
        """Make the updates prepared for `txid` the committed state; without a txid, commit all updates at once.

        Called on the driver's object after the decision, and again after a crash; then on the task's object that
        prepared, before the next wave's first tuple. So a call for a `txid` that is already committed must change
        nothing in the store. Raise if another txid is prepared.

        Anchorbolt never calls the form without a txid; it is for states outside a checkpoint.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Drop everything that was prepared or updated since the last commit.

        Called on the driver's object, after a failed round and after a driver died before its decision. The task's
        object is not used again.
        """

    def close(self) -> None:
        """Close connections and files. The state is not used again. Never called when a process is killed."""


class AttemptState(State):
    """A custom state that keeps the updates of each attempt apart, and so is exactly-once.

    Extend it instead of `State`: stage under `self.scope`, and commit the attempt that the driver names.
    """

    _scope: AttemptScope | None = None

    @property
    def scope(self) -> AttemptScope:
        """The attempt of this wave, with its txid and fence. Raises `StateError` outside a wave."""
        if self._scope is None:
            raise StateError(f"{type(self).__name__} is used outside a wave. Use it in the bolt's hooks only.")
        return self._scope

    def begin(self, scope: AttemptScope) -> None:
        """Start a wave, or another round of it: forget all updates that were not committed.

        Called on the task's object before its first tuple, and before `init_state`. Override it and call `super()`.
        The committed state must be that of `scope.committed` and `scope.winner`. Raise `StateRegressed` if the store
        has another one, so that lost data is noticed.
        """
        self._scope = scope

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Stage all updates of this wave under `scope.attempt`, together with `scope.fence` and `txid`.

        Called in the task, at the end of every wave, also without updates. Leave the updates of other attempts as they
        are. No other reader may see the updates before the commit.
        """

    @abstractmethod
    def commit_attempt(self, txid: int, attempt: str) -> None:
        """Make the updates that `attempt` staged for `txid` the committed state, in one atomic step.

        Called on the driver's object after the decision, and again after a crash. Change nothing if `txid` or a later
        one is already committed. Raise `StateRegressed` if the attempt is not staged completely. Other attempts whose
        fence is not higher than the winner's may be dropped.
        """

    @abstractmethod
    def drop_attempts(self, fence: Fence) -> None:
        """Drop every attempt that was staged under a lower fence than `fence`, and no other.

        Called on the driver's object instead of `rollback`. An older driver that wakes up late may call it with its own
        lower fence; it must then drop nothing that a newer driver staged.
        """

    def commit(self, txid: int | None = None) -> None:
        """Commit this wave's attempt; without a txid, prepare it first. Outside a checkpoint only."""
        if txid is None:
            txid = self.scope.txid
            self.prepare_commit(txid)
        self.commit_attempt(txid, self.scope.attempt)

    def rollback(self) -> None:
        """Drop all attempts of this wave and earlier ones. Outside a checkpoint only."""
        self.drop_attempts(Fence(self.scope.fence.generation, self.scope.fence.seq + 1))
