"""The checkpoint's state machine has exactly the moves of the design."""

import pytest

from anchorbolt.checkpoint.state_machine import INITIAL_STATE, Action, CheckpointState, Phase

LEGAL = {(Phase.PREPARING, Action.PREPARE): Phase.COMMITTING, (Phase.COMMITTING, Action.COMMIT): Phase.COMMITTED}


def test_it_starts_committed_at_minus_one_so_that_the_first_transaction_is_zero() -> None:
    assert CheckpointState(-1, Phase.COMMITTED) == INITIAL_STATE
    assert INITIAL_STATE.begin() == CheckpointState(0, Phase.PREPARING)


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("phase", Phase)
def test_every_phase_and_action_is_either_a_move_of_the_design_or_refused(phase: Phase, action: Action) -> None:
    state = CheckpointState(7, phase)
    if (phase, action) in LEGAL:
        assert state.after(action) == CheckpointState(7, LEGAL[phase, action])
    else:
        with pytest.raises(ValueError, match="is not possible in"):
            state.after(action)


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.COMMITTING])
def test_a_transaction_begins_only_from_committed(phase: Phase) -> None:
    with pytest.raises(ValueError, match="is not possible in"):
        CheckpointState(3, phase).begin()


def test_recovery_rolls_preparing_back_commits_committing_again_and_initialises_committed() -> None:
    actions = {phase: CheckpointState(3, phase).recovery() for phase in Phase}
    assert actions == {
        Phase.PREPARING: Action.ROLLBACK,
        Phase.COMMITTING: Action.COMMIT,
        Phase.COMMITTED: Action.INITSTATE,
    }
