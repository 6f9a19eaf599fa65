"""The checkpoint's state machine: lists the steps that each phase of a transaction allows. Pure.

```
                begin                  PREPARE(t)                   COMMIT(t)
COMMITTED(t-1) ──────▶  PREPARING(t)  ───────────▶  COMMITTING(t)  ──────────▶ COMMITTED(t)
```

A failed round is rolled back, and PREPARING(t) starts again with another round. On recovery, PREPARING is rolled back,
COMMITTING is committed again (rolled forward), and COMMITTED is initialised. This follows Storm's `CheckPointState`.
Unlike in Storm, PREPARING is never stored: staged attempts beside a COMMITTED record show an interrupted PREPARING(t).
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
    """The steps of the checkpoint."""

    INITSTATE = "INITSTATE"
    PREPARE = "PREPARE"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class CheckpointTuple:
    """A step of the checkpoint, as a task handles it."""

    txid: int  # -1 with the first INITSTATE
    action: Action


@dataclass(frozen=True)
class CheckpointState:
    """The phase of a transaction. The methods return the state after a step."""

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
        """Return the state after PREPARE or COMMIT. Raises `ValueError` if this state does not allow `action`."""
        if (self.phase, action) not in _MOVES:
            raise ValueError(f"{action.value} is not possible in {self.phase.value}({self.txid})")
        return CheckpointState(self.txid, _MOVES[self.phase, action])


_RECOVERIES = {Phase.COMMITTED: Action.INITSTATE, Phase.PREPARING: Action.ROLLBACK, Phase.COMMITTING: Action.COMMIT}
_MOVES = {(Phase.PREPARING, Action.PREPARE): Phase.COMMITTING, (Phase.COMMITTING, Action.COMMIT): Phase.COMMITTED}

INITIAL_STATE = CheckpointState(NOTHING_COMMITTED, Phase.COMMITTED)
"""Before the first transaction, which is 0."""

BEFORE_FIRST_BATCH = CheckpointState(0, Phase.COMMITTED)
"""Before the first transaction of a transactional topology, which is 1, as in Storm."""
