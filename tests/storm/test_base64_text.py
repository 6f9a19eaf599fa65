"""Strict decoding of Base64, with and without line breaks."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.storm.base64_text import decode, problem
from tests.migration_tools.storm_data import in_lines, one_line


@given(st.binary(max_size=400))
def test_text_on_one_line_or_in_lines_decodes_with_or_without_a_last_line_break(data: bytes) -> None:
    lines = base64.encodebytes(data)
    for text in (one_line(data), in_lines(data), lines, lines.replace(b"\n", b"\r\n")):
        assert decode(text) == data


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_text_with_one_letter_changed_never_decodes_to_the_same(data: bytes, draw: st.DataObject) -> None:
    text = bytearray(one_line(data))
    position = draw.draw(st.integers(0, len(text) - 1))
    letter = draw.draw(st.integers(0, 255).filter(lambda letter: letter != text[position]))
    text[position] = letter
    assert decode(bytes(text)) != data


@given(st.binary(max_size=200))
def test_whatever_decodes_encodes_to_the_same_text_but_for_line_breaks(text: bytes) -> None:
    data = decode(text)
    if data is not None:
        assert base64.b64encode(data) == text.replace(b"\r", b"").replace(b"\n", b"")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"YWI", "3 characters are not a multiple of 4"),
        (b"YWI=YWI=", "padded elsewhere"),
        (b"YWJj====", "padded elsewhere"),
        (b"YWJ=", "bits after its last byte"),
        (b"YW-_", "'-' at position 2 is of the URL-safe alphabet"),
        (b"YW_j", "'_' at position 2 is of the URL-safe alphabet"),
        (b" YWJj", "byte 0x20 at position 0"),
        (b"YWJj\xc3\xa9", "byte 0xc3 at position 4"),
        (b"YW\nJj", "a line break is elsewhere"),
        (b"\n", "a line break is elsewhere"),
        (b"YWJj\n\n", "a line break is elsewhere"),
        (b"A" * 80 + b"\n", "a line break is elsewhere"),
        (b"A" * 72 + b"\n" + b"A" * 4, "a line break is elsewhere"),
        (b"A" * 76 + b"\r\n" + b"A" * 76 + b"\nAAAA", "a line break is elsewhere"),
    ],
)
def test_other_text_is_refused_with_a_reason(text: bytes, reason: str) -> None:
    assert decode(text) is None
    assert reason in problem(text)
