"""The ids of acked messages, as a decision record has them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import UnsupportedValue
from anchorbolt.spouts import message_ids
from anchorbolt.spouts.message_ids import AckedMessages

IDS = st.lists(st.integers(-5, 5) | st.integers(), max_size=30) | st.lists(
    st.text(max_size=40) | st.tuples(st.text(max_size=3), st.integers()), max_size=30
)


@given(IDS, st.integers(1, 9), st.integers(20, 200))
def test_ids_of_any_number_and_size_are_read_again(ids: list[Any], most: int, largest: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(message_ids, "_MOST_IDS", most)
        patched.setattr(message_ids, "_LARGEST_BYTES", 200 + largest)
        parts = list(AckedMessages.parts_of("in", ids))
        assert [each for _, part in parts for each in part] == ids
        for messages, part in parts:
            assert len(part) <= most
            assert set(messages.msg_ids()) == set(part)


def test_an_id_that_no_reader_takes_is_refused_before_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_ids, "_LARGEST_BYTES", 100)
    with pytest.raises(UnsupportedValue):
        list(AckedMessages.parts_of("in", ["short", "x" * 100]))
