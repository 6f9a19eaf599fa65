"""The moves of a pause, and how long it makes others wait."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.engine.driver.loop import Pause

MOVES = {  # by phase: the phase behind each move that changes it
    "off": {"begin": "pausing", "close": "closed"},
    "pausing": {"cease": "ceased", "end": "off", "close": "closed"},
    "ceased": {"end": "off", "close": "closed"},
    "closed": {},
}


@given(st.lists(st.sampled_from(["begin", "cease", "end", "close"])))
def test_a_move_that_is_not_drawn_changes_nothing(moves: list[str]) -> None:
    pause, phase = Pause(), "off"
    for move in moves:
        getattr(pause, move)()
        phase = MOVES[phase].get(move, phase)
        assert (pause.is_on, pause.has_ceased) == (phase in ("pausing", "ceased"), phase == "ceased")
        assert pause.wait_until_ceased(0) is (phase != "pausing")


@pytest.mark.parametrize("move", ["cease", "end", "close"])
def test_who_waits_for_the_waves_to_cease_does_not_wait_beyond_the_pause(move: str) -> None:
    pause, ended = Pause(), list[bool]()
    pause.begin()
    waits = threading.Thread(target=lambda: ended.append(pause.wait_until_ceased(None)), daemon=True)
    waits.start()
    getattr(pause, move)()
    waits.join(30)
    assert ended == [True]
