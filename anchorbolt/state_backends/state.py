"""`State`, Storm's interface of a checkpointed state, and `AttemptState`; also `Fence` and `AttemptScope`.

`docs/custom_state.md` describes the guarantees of a custom state with each of the two base classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anchorbolt.errors import StateError

NOTHING_COMMITTED = -1
"""The txid of a namespace in which nothing has been committed yet."""


class Fence(NamedTuple):
    """A driver's place in the order of writers: a store refuses a write with a lower fence than the namespace's."""

    generation: int  # a starting driver takes the next generation (`StateStorage.claim`); the first is 1
    seq: int  # the driver raises it for each round, commit and rollback


NO_FENCE = Fence(0, 0)
"""The fence of a namespace that nobody has written to."""


@dataclass(frozen=True)
class AttemptScope:
    """The attempt that uses a state during one wave, and the committed state according to the driver."""

    fence: Fence
    txid: int
    attempt: str  # 32 hexadecimal digits
    committed: int = NOTHING_COMMITTED
    winner: str = ""  # the attempt that `committed` came from; empty if nothing is committed
    clock: int = 0  # of the wave: ms since 1970; the same in a repeated round, and never below the last wave's
    watermark: int | None = None  # of the bolt, in ms since 1970; None before the first event time
    has_expiring: bool = False  # whether the bolt's committed state has entries that expire
    keep: Callable[[Any], None] | None = None  # gets each `StagedSlice`, while a savepoint of the run is taken


class State(ABC):
    """A state that takes part in the three-phase checkpoint. All calls may be repeated for the same txid.

    A custom state has two objects at a time. The bolt works with the task's object, which prepares. The driver's object
    never gets an update; it commits or rolls back the data in the store. A task's object is used again only for the
    directly following wave. After a kill, and if Spark runs a task twice, there may be several objects of each kind.
    """

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Persist all updates since the last commit so that `commit(txid)` can no longer fail for lack of data.

        Called in the task, at the end of every wave, even without updates. No other reader may see the updates before
        the commit. The call replaces everything that was prepared before.
        """

    @abstractmethod
    def commit(self, txid: int | None = None) -> None:
        """Make the updates prepared for `txid` the committed state; without a txid, commit all updates at once.

        Called on the driver's object after the decision, and again after a crash; then on the task's object that
        prepared, before the first tuple of the next wave. So a call for a committed `txid` must change nothing in the
        store. Raise if another txid is prepared.

        Anchorbolt never calls this without a txid: that form is for states outside a checkpoint.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Drop everything that was prepared or updated since the last commit.

        Called on the driver's object, after a failed round and after a driver died before its decision. The task's
        object is then not used again.
        """

    def close(self) -> None:
        """Close connections and files. The state is not used again. Never called when a process is killed."""


class AttemptState(State):
    """A custom state that keeps the updates of each attempt separate, and so is exactly-once.

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

        Called on the task's object before its first tuple, and before `init_state`. Override it and call `super()`. The
        committed state must be the one of `scope.committed` and `scope.winner`. Otherwise raise `StateRegressed`, so
        that lost data is detected.
        """
        self._scope = scope

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Stage all updates of this wave under `scope.attempt`, together with `scope.fence` and `txid`.

        Called in the task, at the end of every wave, even without updates. Do not change the updates of other attempts.
        No other reader may see the updates before the commit.
        """

    @abstractmethod
    def commit_attempt(self, txid: int, attempt: str) -> None:
        """Make the updates that `attempt` staged for `txid` the committed state, in one atomic step.

        Called on the driver's object after the decision, and again after a crash. Change nothing if `txid` or a later
        txid is already committed. Raise `StateRegressed` if the attempt is not staged completely. Other attempts may be
        dropped, unless their fence is higher than the winner's.
        """

    @abstractmethod
    def drop_attempts(self, fence: Fence) -> None:
        """Drop every attempt that was staged under a lower fence than `fence`, and no other.

        Called on the driver's object instead of `rollback`. An older driver that wakes up late may call it with its own
        lower fence; then updates staged by a newer driver must stay.
        """

    def split(self, tasks: int) -> Sequence[Any]:
        """Return the committed content in `tasks` parts, one for each task that the bolt gets; any objects.

        Called after `begin`, at the start of a run with `topology.state.rescale` and another parallelism of the bolt,
        on one object for each task that the bolt had. An entry belongs to the task that fields grouping chooses:
        `anchorbolt.streams.hashing.destination_of(stable_hash(key), tasks)`. Override it together with `merge`; without
        them, such a start is refused.
        """
        raise NotImplementedError

    def merge(self, parts: Sequence[Any]) -> None:
        """Replace all content by these parts, as updates of this attempt: one part from each task that the bolt had.

        Called after `begin`, on an object for each task that the bolt gets, instead of the bolt's updates.
        `prepare_commit` follows.
        """
        raise NotImplementedError

    def commit(self, txid: int | None = None) -> None:
        """Commit this wave's attempt; without a txid, prepare it first. Outside a checkpoint only."""
        if txid is None:
            txid = self.scope.txid
            self.prepare_commit(txid)
        self.commit_attempt(txid, self.scope.attempt)

    def rollback(self) -> None:
        """Drop all attempts of this wave and earlier ones. Outside a checkpoint only."""
        self.drop_attempts(Fence(self.scope.fence.generation, self.scope.fence.seq + 1))
