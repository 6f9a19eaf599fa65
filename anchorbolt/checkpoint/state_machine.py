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
        """Start the next transaction: COMMITTED(t-1) → PREPARING(t). Raises `ValueError` in another phase."""
        if self.phase is not Phase.COMMITTED:
            raise ValueError(f"begin is not possible in {self.phase.value}({self.txid})")
        return CheckpointState(self.txid + 1, Phase.PREPARING)

    def recovery(self) -> Action:
        """Return the action of a driver that finds this state at its start."""
        return _RECOVERIES[self.phase]

    def after(self, action: Action) -> CheckpointState:
        """Return the state once every bolt has acted. Raises `ValueError` if this state does not allow `action`."""
        if (self.phase, action) not in _MOVES:
            raise ValueError(f"{action.value} is not possible in {self.phase.value}({self.txid})")
        step, phase = _MOVES[self.phase, action]
        return CheckpointState(self.txid + step, phase)


_RECOVERIES = {Phase.COMMITTED: Action.INITSTATE, Phase.PREPARING: Action.ROLLBACK, Phase.COMMITTING: Action.COMMIT}
_MOVES = {
    (Phase.COMMITTED, Action.INITSTATE): (0, Phase.COMMITTED),
    (Phase.PREPARING, Action.PREPARE): (0, Phase.COMMITTING),
    (Phase.PREPARING, Action.ROLLBACK): (-1, Phase.COMMITTED),
    (Phase.COMMITTING, Action.COMMIT): (0, Phase.COMMITTED),
}

INITIAL_STATE = CheckpointState(NOTHING_COMMITTED, Phase.COMMITTED)
"""Before the first transaction, which is 0."""
