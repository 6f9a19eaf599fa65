"""Strings and numbers, encoded by a small encoder of the tests and decoded."""

import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anchorbolt.errors import SerializationError
from anchorbolt.storm.kryo import StormDecoder
from anchorbolt.storm.kryo.byte_streams import ByteReader
from anchorbolt.storm.kryo.values import JavaScalar
from anchorbolt.storm.wrapper import Generation
from tests.storm.kryo_encoder import Encoder

BOTH = [
    (Encoder(kryo_5=False), StormDecoder(Generation.STORM_1_2)),
    (Encoder(kryo_5=True), StormDecoder(Generation.STORM_2_6)),
]
SURROGATES = st.integers(0xD800, 0xDFFF).map(chr)
TEXT = st.text(st.characters() | SURROGATES | st.sampled_from("\0aé日😀\ud83d\ude00"), max_size=90)
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


def as_java_has_it(text: str) -> str:
    """Join each pair of surrogates into one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@given(TEXT)
@example("")
@example("a")
@example("x" * 63)
@example("x" * 64)
@example("\0\0")
@example("\ud83d\ude00\ude00")
@example("é" * 20_000)
def test_strings(text: str) -> None:
    for encoder, decoder in BOTH:
        value: Any = decoder.decode_key(encoder.string(text))
        assert value.value == as_java_has_it(text)
        assert value.to_json() == {"t": "string", "v": as_java_has_it(text)}
        value.describe().encode()  # no lone surrogate gets through to a terminal


@given(INTS, LONGS)
@example(-(2**31), -(2**63))
@example(2**31 - 1, 2**63 - 1)
def test_ints_and_longs(an_int: int, a_long: int) -> None:
    for encoder, decoder in BOTH:
        value = decoder.decode_key(b"\x02" + encoder.signed(an_int))
        assert value.to_json() == {"t": "int", "v": str(an_int)}
        value = decoder.decode_key(b"\x09" + encoder.signed(a_long, 9))
        assert value.to_json() == {"t": "long", "v": str(a_long)}


@given(st.integers(-(2**15), 2**15 - 1), st.integers(-128, 127), st.integers(0, 0xFFFF), st.booleans())
def test_shorts_bytes_characters_and_booleans(short: int, byte: int, code: int, boolean: bool) -> None:
    for encoder, decoder in BOTH:
        forms = [
            (b"\x08" + encoder.fixed("h", short), {"t": "short", "v": str(short)}),
            (b"\x06" + struct.pack("b", byte), {"t": "byte", "v": str(byte)}),
            (b"\x07" + encoder.fixed("H", code), {"t": "char", "v": chr(code), "code": code}),
            (b"\x05" + bytes([boolean]), {"t": "boolean", "v": boolean}),
        ]
        for data, form in forms:
            assert decoder.decode_key(data).to_json() == form


@given(st.floats(), st.floats(width=32))
@example(-0.0, -0.0)
def test_doubles_and_floats(double: float, single: float) -> None:
    for encoder, decoder in BOTH:
        for data, number, size in (
            (b"\x0a" + encoder.fixed("d", double), double, ">d"),
            (b"\x04" + encoder.fixed("f", single), single, ">f"),
        ):
            value = decoder.decode_key(data)
            assert isinstance(value, JavaScalar)
            assert value.to_json()["bits"] == struct.pack(size, number).hex()
            text = value.to_json()["v"].replace("Infinity", "inf")
            read = struct.unpack(size, struct.pack(size, float(text)))[0]
            assert read == number or (math.isnan(read) and math.isnan(number))


@given(st.integers(-(10**300), 10**300), INTS, LONGS, st.uuids())
def test_numbers_of_any_size_dates_and_uuids(large: int, scale: int, millis: int, uuid: Any) -> None:
    big = large.to_bytes(large.bit_length() // 8 + 1, "big", signed=True)
    for encoder, decoder in BOTH:
        data = encoder.named("java.math.BigDecimal") + encoder.number(len(big) + 1) + big + encoder.signed(scale)
        value = decoder.decode_key(data)
        assert value == JavaScalar("bigdecimal", large, detail=scale)
        assert value.to_json()["unscaled"] == str(large)
        data = encoder.named("java.util.Date") + encoder.number(millis % 2**64, 9)
        assert decoder.decode_key(data) == JavaScalar("date", millis)
        most, least = struct.unpack(">qq", uuid.bytes)
        data = encoder.named("java.util.UUID") + encoder.signed(least, 9) + encoder.signed(most, 9)
        assert decoder.decode_key(data).to_json() == {"t": "uuid", "v": str(uuid)}


@given(st.booleans(), st.integers(0, 2**32 - 1))
@example(True, 63)
@example(True, 64)
def test_numbers_that_share_their_first_byte_with_a_flag(flag: bool, number: int) -> None:
    encoded = Encoder(kryo_5=True).flagged(flag, number)
    reader = ByteReader(encoded, little_endian=True)
    assert reader.flagged() == (flag, number)
    assert reader.remaining == 0


@pytest.mark.parametrize(
    ("tag", "bits", "text"),
    [
        ("double", 0x4000000000000000, "2.0"),
        ("double", 0x3F50624DD2F1A9FC, "0.001"),
        ("double", 0x3F50624DD2F1A9FB, "9.999999999999998E-4"),
        ("double", 0x416312CFFFFFFFFF, "9999999.999999998"),
        ("double", 0x416312D000000000, "1.0E7"),
        ("double", 0x0000000000000001, "4.9E-324"),
        ("double", 0x7FEFFFFFFFFFFFFF, "1.7976931348623157E308"),
        ("double", 0x44B52D02C7E14AF6, "1.0E23"),
        ("double", 0x4382000000000000, "1.6212958658533786E17"),
        ("double", 0x4380000000000000, "1.4411518807585587E17"),
        ("double", 0xFFF0000000000000, "-Infinity"),
        ("double", 0x7FF8000000000001, "NaN"),
        ("float", 0x3DCCCCCD, "0.1"),
        ("float", 0x4E800000, "1.0737418E9"),
        ("float", 0x69000000, "9.671407E24"),
        ("float", 0x3DAACDD3, "0.08340039"),
        ("float", 0x00000001, "1.4E-45"),
        ("float", 0x7F7FFFFF, "3.4028235E38"),
        ("float", 0x80000000, "-0.0"),
    ],
)
def test_a_number_has_the_fewest_digits_that_read_back_in_javas_notation(tag: str, bits: int, text: str) -> None:
    assert JavaScalar(tag, bits).to_json()["v"] == text


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "they end too early"),
        ("0280", "they end too early"),
        ("028000", "a number in more bytes than it needs"),
        ("02ffffffff1f", "a number of more than 32 bits"),
        ("02ffffffffff01", "a number of more than 32 bits"),
        ("09808080808080808000", "a number in more bytes than it needs"),
        ("0503", "3 where 0 or 1 should be"),
        ("0300", "a reference to object -2 of 0"),
        ("030161", "a string that does not end"),
        ("030180", "null where a java.lang.String should be"),
        ("0301c000", "a number in more bytes than it needs"),
        ("030182c080", "a string with bytes that are no characters"),
        ("030183c3a9", "3 bytes should follow, and 2 do"),
        ("030182f09f9880", "a string with bytes that are no characters"),
        ("0301ffffffff0f61", "a string of 2147483646 characters should follow, and 1 bytes do"),
        ("0105", "name 5 of 0"),
        ("010081", "a class without a name that a class can have"),
        ("010061206220e201", "a class without a name that a class can have"),
        ("0304", "a reference to object 2 of 0"),
    ],
)
def test_what_kryo_never_writes_is_refused_with_the_place(data: str, problem: str) -> None:
    with pytest.raises(SerializationError, match=rf"({problem}).*, at byte \d+$"):
        StormDecoder(Generation.STORM_1_2).decode_key(bytes.fromhex(data))
