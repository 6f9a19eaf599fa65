"""Storm's `State`: what a checkpoint asks of any state, key-value or not."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["State"]


class State(ABC):
    """A state that takes part in the three-phase checkpoint. All calls may be repeated for the same txid."""

    @abstractmethod
    def prepare_commit(self, txid: int) -> None:
        """Persist all updates since the last commit so that `commit(txid)` can no longer fail for lack of data.

        Nothing of it may be visible to another reader before the commit.
        """

    @abstractmethod
    def commit(self, txid: int | None = None) -> None:
        """Make what was prepared for `txid` the committed state; without a txid, commit all updates at once.

        The form without a txid is for states outside a checkpoint.
        """

    @abstractmethod
    def rollback(self) -> None:
        """Drop everything that was prepared or updated since the last commit."""
