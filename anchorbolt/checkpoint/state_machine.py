"""The checkpoint's state machine: pure, and the only place that decides what happens next.

```
                 ROLLBACK(t)                   PREPARE(t)                    COMMIT(t)
COMMITTED(t-1) ◀────────────  PREPARING(t)  ─────────────▶  COMMITTING(t)  ───────────▶ COMMITTED(t)
```

On recovery: PREPARING is rolled back, COMMITTING is committed again (rolled forward), COMMITTED is initialised. After
Storm's `CheckPointState`, which this follows; unlike there, PREPARING is not written anywhere: staged attempts beside
a COMMITTED record are a PREPARING(t) that did not get any further.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anchorbolt.state_backends.contract import NOTHING_COMMITTED


class Phase(str, Enum):
    """Where a transaction stands."""

    COMMITTED = "COMMITTED"
    PREPARING = "PREPARING"
    COMMITTING = "COMMITTING"


class Action(str, Enum):
    """What a checkpoint tuple asks a bolt to do."""

    INITSTATE = "INITSTATE"
    PREPARE = "PREPARE"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class CheckpointTuple:
    """What flows on the stream `$checkpoint`.

    Attributes:
        txid: The transaction; -1 with the first INITSTATE.
        action: What to do.
    """

    txid: int
    action: Action


@dataclass(frozen=True)
class CheckpointState:
    """A transaction and its phase; all its moves.

    Attributes:
        txid: The transaction.
        phase: Where it stands.
    """

    txid: int
    phase: Phase

    def begin(self) -> CheckpointState:
        """Start the next transaction: COMMITTED(t-1) → PREPARING(t)."""
        self._must_be(Phase.COMMITTED, "begin")
        return CheckpointState(self.txid + 1, Phase.PREPARING)

    def action(self, *, recovering: bool) -> Action:
        """Return what the bolts have to be told in this state."""
        if self.phase is Phase.PREPARING:
            return Action.ROLLBACK if recovering else Action.PREPARE
        if self.phase is Phase.COMMITTING:
            return Action.COMMIT
        return Action.INITSTATE

    def after(self, action: Action) -> CheckpointState:
        """Return the state once every bolt has acted.

        Raises:
            ValueError: `action` is no move from this state.
        """
        if action is Action.INITSTATE:
            self._must_be(Phase.COMMITTED, action.value)
            return self
        if action is Action.PREPARE:
            self._must_be(Phase.PREPARING, action.value)
            return CheckpointState(self.txid, Phase.COMMITTING)
        if action is Action.COMMIT:
            self._must_be(Phase.COMMITTING, action.value)
            return CheckpointState(self.txid, Phase.COMMITTED)
        self._must_be(Phase.PREPARING, action.value)
        return CheckpointState(self.txid - 1, Phase.COMMITTED)

    def _must_be(self, phase: Phase, move: str) -> None:
        if self.phase is not phase:
            raise ValueError(
                f"{move} is no move from {self.phase.value}({self.txid}); only from {phase.value}"
            )


INITIAL_STATE = CheckpointState(NOTHING_COMMITTED, Phase.COMMITTED)
"""Before the first transaction, which is 0."""
