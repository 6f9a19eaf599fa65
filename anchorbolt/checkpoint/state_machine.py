"""The checkpoint's state machine: pure, and the only place that decides which step follows.

```
                 ROLLBACK(t)                   PREPARE(t)                    COMMIT(t)
COMMITTED(t-1) ◀────────────  PREPARING(t)  ─────────────▶  COMMITTING(t)  ───────────▶ COMMITTED(t)
```

On recovery, PREPARING is rolled back, COMMITTING is committed again (rolled forward), and COMMITTED is initialised.
This follows Storm's `CheckPointState`. Unlike in Storm, PREPARING is never written down: staged attempts beside a
COMMITTED record are a PREPARING(t) that was interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anchorbolt.state_backends.contract import NOTHING_COMMITTED


class Phase(str, Enum):
    """The phase of a transaction."""

    COMMITTED = "COMMITTED"
    PREPARING = "PREPARING"
    COMMITTING = "COMMITTING"


class Action(str, Enum):
    """The action of a checkpoint tuple."""

    INITSTATE = "INITSTATE"
    PREPARE = "PREPARE"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class CheckpointTuple:
    """A tuple of the stream `$checkpoint`."""

    txid: int  # -1 with the first INITSTATE
    action: Action


@dataclass(frozen=True)
class CheckpointState:
    """A transaction and its phase, with all its moves."""

    txid: int
    phase: Phase

    def begin(self) -> CheckpointState:
        """Start the next transaction: COMMITTED(t-1) → PREPARING(t)."""
        self._must_be(Phase.COMMITTED, "begin")
        return CheckpointState(self.txid + 1, Phase.PREPARING)

    def action(self, *, recovering: bool) -> Action:
        """Return the action that the bolts must be sent in this state."""
        if self.phase is Phase.PREPARING:
            return Action.ROLLBACK if recovering else Action.PREPARE
        if self.phase is Phase.COMMITTING:
            return Action.COMMIT
        return Action.INITSTATE

    def after(self, action: Action) -> CheckpointState:
        """Return the state once every bolt has acted.

        Raises:
            ValueError: This state does not allow `action`.
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
            raise ValueError(f"{move} is not possible in {self.phase.value}({self.txid}), only in {phase.value}")


INITIAL_STATE = CheckpointState(NOTHING_COMMITTED, Phase.COMMITTED)
"""Before the first transaction, which is 0."""
