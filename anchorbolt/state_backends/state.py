"""Storm's `State`: what a checkpoint asks of any state, key-value or not.

What a state of your own can guarantee by each of the two classes is said in `docs/custom_state.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from anchorbolt.errors import StateError
from anchorbolt.state_backends.scope import AttemptScope, Fence


class State(ABC):
    """A state that takes part in the three-phase checkpoint. All calls may be repeated for the same txid.

    Of a class of your own there are two objects at a time: the task's, which the bolt works with and which prepares,
    and the driver's, which never sees an update and moves what lies in the store. A task's object is used again only
    for the directly following wave. After any kill, and where Spark runs a task twice, there may be several of each.
    """

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Persist all updates since the last commit so that `commit(txid)` can no longer fail for lack of data.

        Called in the task, at the end of every wave, also where nothing was updated. Nothing of it may be visible to
        another reader before the commit. Replaces, as a whole, whatever was prepared before.
        """

    @abstractmethod
    def commit(self, txid: int | None = None) -> None:
        """Make what was prepared for `txid` the committed state; without a txid, commit all updates at once.

        Called on the driver's object after the decision, and again after a crash; then on the task's own, before the
        next wave's first tuple, if that was the one that prepared. So a `txid` that is committed already changes
        nothing in the store. Must raise where something else than `txid` is prepared.

        The form without a txid is for states outside a checkpoint, and never called by the framework.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Drop everything that was prepared or updated since the last commit.

        Called on the driver's object, after a round failed or a driver died before its decision. The task's object is
        not used again.
        """

    def close(self) -> None:
        """Let go of connections and files. The state is not used again; never called when a process is killed."""


class AttemptState(State):
    """A state of your own that keeps apart what the attempts of its task prepared, and so is exactly-once.

    Extend this in place of `State`: stage under `self.scope`, and move what the driver names.
    """

    _scope: AttemptScope | None = None

    @property
    def scope(self) -> AttemptScope:
        """On whose behalf the task's object is used in this wave; raises `StateError` outside one."""
        if self._scope is None:
            raise StateError(
                f"{type(self).__name__} is used outside a wave. Use it in the bolt's hooks only."
            )
        return self._scope

    def begin(self, scope: AttemptScope) -> None:
        """Start a wave, or another round of it: updates that were not committed are to be forgotten.

        Called on the task's object before its first tuple, and before `init_state`. Override it and call `super()`.
        The committed state must be that of `scope.committed` and `scope.winner`: raise `StateRegressed` where the
        store has another one, so that a store that lost data is noticed.
        """
        self._scope = scope

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Stage all updates of this wave under `scope.attempt`, together with `scope.fence` and `txid`.

        Called in the task, at the end of every wave, also where nothing was updated. What other attempts staged stays
        as it is. Nothing may be visible before the commit.
        """

    @abstractmethod
    def commit_attempt(self, txid: int, attempt: str) -> None:
        """Make what `attempt` staged for `txid` the committed state, in one step that cannot be seen half done.

        Called on the driver's object after the decision, and again after a crash. Changes nothing where `txid`, or a
        later one, is committed already. Raises `StateRegressed` where the attempt is not staged, or not to its end.
        Other attempts with a fence as low as the winner's may be dropped.
        """

    @abstractmethod
    def drop_attempts(self, fence: Fence) -> None:
        """Drop every attempt that was staged under a lower fence than `fence`, and no other.

        Called on the driver's object in place of `rollback`. An older driver that wakes up late may call it, with its
        own, lower fence: then there is nothing to drop.
        """

    def commit(self, txid: int | None = None) -> None:
        """Commit this wave's attempt; without a txid, prepare it first. Outside a checkpoint only."""
        if txid is None:
            txid = self.scope.txid
            self.prepare_commit(txid)
        self.commit_attempt(txid, self.scope.attempt)

    def rollback(self) -> None:
        """Drop what was staged in this wave and before. Outside a checkpoint only."""
        self.drop_attempts(Fence(self.scope.fence.generation, self.scope.fence.seq + 1))
