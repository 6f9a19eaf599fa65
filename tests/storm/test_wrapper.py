"""The wrapper around Storm's values, against what Storm itself wrote; strict decoding of Base64."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.storm.base64_text import decode, problem
from anchorbolt.storm.wrapper import Generation, Wrapped, unwrap, wrap_for_storm_1_2
from tests.migration_tools.storm_data import in_lines, one_line
from tests.support.storm_fixtures import Dump, dumps

PRESENT_IN_1_2 = b"\x01\x00org.apache.storm.shade.com.google.common.base.Presen\xf4\x01\x01\x01[\xc2\x01"


def values_by_name(dump: Dump) -> list[tuple[str, bytes]]:
    return [(name, value) for name, fields in dump.binary().items() for value in fields.values()]


@pytest.mark.parametrize("dump", [each for each in dumps() if not each.storm.startswith("1.0")], ids=str)
def test_each_value_of_storm_shows_its_generation_and_is_wrapped_to_the_last_byte(dump: Dump) -> None:
    tombstones = 0
    for name, value in values_by_name(dump):
        wrapped = unwrap(value)
        assert wrapped is not None, name
        assert wrapped.generation is dump.generation
        assert {each for each in Generation if unwrap(value, each) is not None} == {wrapped.generation}
        tombstones += wrapped.payload is None
        for cut in range(len(value)):
            assert unwrap(value[:cut]) is None
        assert unwrap(value + b"\x00") is None
    assert tombstones == (0 if dump.name.endswith("wordcount") else 2)


@pytest.mark.parametrize("dump", [each for each in dumps() if each.storm.startswith("1.0")], ids=str)
def test_values_of_storm_1_0_have_no_wrapper_but_one_that_looks_like_a_tombstone_of_2_0(dump: Dump) -> None:
    found = {(name, value): unwrap(value) for name, value in values_by_name(dump)}
    an_empty_list = ("registered-1", b"\x0c\x01\x00")  # its class was registered, as id 10
    assert {key: wrapped for key, wrapped in found.items() if wrapped is not None} == (
        {an_empty_list: Wrapped(Generation.STORM_2_0, None)} if an_empty_list in found else {}
    )
    assert an_empty_list in found or dump.name.endswith("wordcount")
    for generation in (Generation.STORM_1_0, Generation.STORM_1_1, Generation.STORM_1_2):
        assert [name for name, value in found if unwrap(value, generation) is not None] == []


@given(st.binary(max_size=40_000))
def test_a_payload_of_any_length_comes_out_of_its_wrapper(payload: bytes) -> None:
    assert unwrap(wrap_for_storm_1_2(payload)) == Wrapped(Generation.STORM_1_2, payload)


@given(st.binary(max_size=200))
def test_unwrap_finds_only_wrappers_that_wrap_makes(data: bytes) -> None:
    for value in (data, PRESENT_IN_1_2 + data):
        wrapped = unwrap(value)
        assert (
            wrapped is None
            or wrapped.generation is not Generation.STORM_1_2
            or (wrap_for_storm_1_2(wrapped.payload) == value)
        )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "nothing"),
        (PRESENT_IN_1_2, "no length"),
        (PRESENT_IN_1_2 + b"\x00", "a byte array that is null"),
        (PRESENT_IN_1_2 + b"\x82\x00A", "a length in more bytes than it needs"),
        (PRESENT_IN_1_2 + b"\x80\x80\x80\x80\x80\x01", "a length that does not end in five bytes"),
        (PRESENT_IN_1_2.replace(b"Presen\xf4", b"Presens\xf4") + b"\x02A", "another class"),
        (PRESENT_IN_1_2.replace(b"[\xc2", b"[\xc3") + b"\x02A", "another array"),
        (b"\x0c\x01\x01\x00[\xc2\x02A", "2.0 without its last marker"),
        (b"\x0b\x01\x01\x00[\xc2\x01\x02A", "2.6 with the markers of 2.0"),
        (b"\x0c\x00", "2.0 with the tombstone of 2.6"),
    ],
)
def test_a_damaged_wrapper_is_not_a_wrapper(value: bytes, why: str) -> None:
    assert unwrap(value) is None, why


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
