"""Frames come out of a connection as they were put in, whatever pieces its bytes arrive in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.engine.workers.frames import HEAD, LONGEST_FRAME, Frame, Frames, Kind
from anchorbolt.errors import SerializationError

FRAMES = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=100),
)


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 1000), max_size=8))
def test_frames_do_not_depend_on_where_their_bytes_are_cut(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frame.encoded() for frame in frames)
    ends = sorted(min(cut, len(data)) for cut in cuts)
    reader = Frames()
    found: list[Frame] = []
    for start, end in zip([0, *ends], [*ends, len(data)], strict=True):
        found += reader.add(data[start:end])
        complete = sum(len(frame.encoded()) for frame in found)
        assert reader.is_cut == (complete < end)
    assert found == frames


def test_the_longest_payload_is_taken_and_a_longer_one_is_refused_before_it_arrives() -> None:
    longest = Frame(Kind.BLOB, payload=b"12345")
    assert Frames(longest=5).add(longest.encoded()) == [longest]
    with pytest.raises(SerializationError, match="6 bytes"):
        Frames(longest=5).add(HEAD.pack(6, Kind.BLOB, 0, 0, 0))
    with pytest.raises(SerializationError):
        Frames().add(HEAD.pack(LONGEST_FRAME + 1, Kind.BLOB, 0, 0, 0))


@pytest.mark.parametrize("kind", [max(Kind) + 1, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(SerializationError, match=f"kind {kind}"):
        Frames().add(HEAD.pack(0, kind, 0, 0, 0))
