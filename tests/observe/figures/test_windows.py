"""Sums over windows, beside a plain list of what was added."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.observe.figures.windows import ALL_TIME, WINDOWS, Windows

STEPS = st.lists(
    st.tuples(st.floats(min_value=0, max_value=40_000), st.integers(min_value=0, max_value=1000)), max_size=30
)


@given(st.floats(min_value=0, max_value=1e6), STEPS, st.floats(min_value=0, max_value=100_000))
def test_a_window_has_all_of_its_time_but_for_a_twentieth(
    began: float, steps: list[tuple[float, int]], later: float
) -> None:
    windows, now, added = Windows((1,), began), began, []
    for pause, number in steps:
        now += pause
        windows.add(np.array([float(number)]), now)
        added.append((now, number))
    now += later
    sums, seconds = windows.sums(ALL_TIME, now)
    assert sums[0] == sum(number for _, number in added)
    assert seconds == pytest.approx(max(now - began, 1e-9))
    for name, length in WINDOWS.items():
        [total], seconds = windows.sums(name, now)
        surely = sum(number for at, number in added if at > now - length * 0.95)
        perhaps = sum(number for at, number in added if at >= now - length)
        assert surely <= total <= perhaps
        assert seconds <= length


def test_an_unknown_window_is_an_error() -> None:
    with pytest.raises(KeyError):
        Windows((1,), 0.0).sums("60", 1.0)
