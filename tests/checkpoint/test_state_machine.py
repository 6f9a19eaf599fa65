"""The checkpoint's state machine has exactly the moves of Storm's."""

import itertools

import pytest

from anchorbolt.checkpoint.state_machine import INITIAL_STATE, Action, CheckpointState, Phase

LEGAL = {
    (Phase.PREPARING, Action.PREPARE): (0, Phase.COMMITTING),
    (Phase.PREPARING, Action.ROLLBACK): (-1, Phase.COMMITTED),
    (Phase.COMMITTING, Action.COMMIT): (0, Phase.COMMITTED),
    (Phase.COMMITTED, Action.INITSTATE): (0, Phase.COMMITTED),
}


def test_it_starts_committed_at_minus_one_so_that_the_first_transaction_is_zero() -> None:
    assert CheckpointState(-1, Phase.COMMITTED) == INITIAL_STATE
    assert INITIAL_STATE.begin() == CheckpointState(0, Phase.PREPARING)


@pytest.mark.parametrize(("phase", "action"), list(itertools.product(Phase, Action)))
def test_every_phase_and_action_is_either_a_move_of_the_design_or_refused(phase: Phase, action: Action) -> None:
    state = CheckpointState(7, phase)
    if (phase, action) in LEGAL:
        step, expected = LEGAL[phase, action]
        assert state.after(action) == CheckpointState(7 + step, expected)
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
