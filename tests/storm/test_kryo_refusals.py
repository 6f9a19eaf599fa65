"""What cannot be known is refused with a name, and what is endless or too much with a limit."""

import pickle
from typing import Any

import pytest

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm.kryo import JavaValue, StormDecoder, detect
from anchorbolt.storm.wrapper import Generation, wrap_for_storm_1_2
from tests.storm.kryo_encoder import Encoder

OLD, NEW = Encoder(kryo_5=False), Encoder(kryo_5=True)
LIST, OPTIONAL, TUPLE = "java.util.ArrayList", "java.util.Optional", "org.apache.storm.tuple.TupleImpl"
EMPTY_LISTS = "java.util.Collections$EmptyList"
STORM_1, STORM_2_0, STORM_2_6 = Generation.STORM_1_2, Generation.STORM_2_0, Generation.STORM_2_6


def decoded(data: bytes, generation: Generation = STORM_1, **known: Any) -> JavaValue:
    return StormDecoder(generation, **known).decode_key(data)


@pytest.mark.parametrize(
    ("data", "registered"), [(OLD.named("com.acme.Order") + b"\x04", []), (b"\x0c\x01\x04", ["com.acme.Order"])]
)
def test_a_users_class_is_named_in_the_error_which_survives_pickling(data: bytes, registered: list[str]) -> None:
    with pytest.raises(UnsupportedJavaClass, match=r"'com\.acme\.Order'.*docs/storm_bytes.*If it is an enum") as caught:
        decoded(data, registered=registered)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - pickled here
    assert (again.java_class, again.class_id, str(again)) == ("com.acme.Order", None, str(caught.value))


def test_a_class_name_from_the_bytes_cannot_harm_a_terminal_or_fill_it() -> None:
    with pytest.raises(UnsupportedJavaClass) as caught:
        decoded(OLD.named("com." + "x" * 100_000))
    assert len(str(caught.value)) < 1000
    with pytest.raises(SerializationError, match="a name that a class can have") as refused:
        decoded(OLD.named("com.\x1b[2J"))
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("generation", list(Generation))
def test_an_id_that_nobody_registered_is_named(generation: Generation) -> None:
    with pytest.raises(UnsupportedJavaClass, match=r"the id 40.*keyClass, valueClass") as caught:
        decoded(b"\x2a\x01\x00", generation)
    assert (caught.value.java_class, caught.value.class_id) == ("id 40", 40)


def test_storm_1_numbers_registered_classes_in_the_order_of_the_configuration() -> None:
    decoder = StormDecoder(
        STORM_1, registered=["java.lang.Long", "java.util.LinkedList", LIST, LIST, "java.util.HashSet"]
    )
    for number, form in ((12, "java.util.LinkedList"), (13, LIST), (14, "java.util.HashSet")):
        assert decoder.decode_key(bytes([number]) + b"\x01\x00").to_json()["class"] == form
    with pytest.raises(UnsupportedJavaClass, match="the id 13"):
        decoder.decode_key(b"\x0f\x01\x00")


@pytest.mark.parametrize(("generation", "first", "empty"), [(STORM_2_0, 12, b"\x01\x00"), (STORM_2_6, 11, b"\x01")])
@pytest.mark.parametrize("in_topology", [True, False])
def test_storm_2_numbers_them_by_name_with_optional_among_them_and_its_tuple_before(
    generation: Generation, first: int, empty: bytes, in_topology: bool
) -> None:
    registered = ["org.apache.storm.tuple.Values", "java.lang.String", LIST]
    decoder = StormDecoder(generation, registered=registered, in_topology=in_topology)
    at = first + in_topology
    assert decoder.decode_key(bytes([at]) + empty).to_json()["class"] == LIST
    absent = b"\x01\x00" if generation is STORM_2_0 else b"\x00"
    assert decoder.decode_key(bytes([at + 1]) + absent).to_json()["t"] == "optional"
    assert decoder.decode_key(bytes([at + 2]) + empty).to_json()["class"] == "org.apache.storm.tuple.Values"


def test_bytes_that_mean_two_things_are_refused_until_the_place_is_named() -> None:
    data = b"\x0d\x01\x00"  # id 11, new, 0: an Optional without a value, or a list without elements
    with pytest.raises(SerializationError, match=r"can be read both ways\. Name the right one") as caught:
        decoded(data, STORM_2_0, registered=[LIST])
    assert not isinstance(caught.value, UnsupportedJavaClass)
    inside, outside = (decoded(data, STORM_2_0, registered=[LIST], in_topology=place) for place in (True, False))
    assert inside.to_json() == {"t": "list", "class": LIST, "v": []}
    assert outside.to_json()["t"] == "optional"


@pytest.mark.parametrize(
    ("generation", "data"),
    [
        (STORM_2_0, b"\x0c\x01" + (7).to_bytes(4, "big") + b"\x01\x02\x03\x04\x05\x06\x07"),
        (STORM_2_6, b"\x0b" + (7).to_bytes(4, "little") + b"\x01\x02\x03\x04\x05\x06\x07"),
        (STORM_2_0, OLD.named(LIST) + b"\x02\x0c\x01" + (3).to_bytes(4, "big") + b"abc" + OLD.string("after")),
    ],
)
def test_a_tuple_of_storms_is_named_even_where_the_place_is_not(generation: Generation, data: bytes) -> None:
    with pytest.raises(UnsupportedJavaClass) as caught:
        decoded(data, generation)
    assert caught.value.java_class == TUPLE
    with pytest.raises(SerializationError):
        decoded(data[:-1], generation)


def test_an_enum_constant_beyond_the_last_is_refused() -> None:
    decoder = StormDecoder(STORM_1, enums={"com.acme.Colour": ["RED", "GREEN"]})
    assert str(decoder.decode_key(OLD.named("com.acme.Colour") + b"\x02")) == "com.acme.Colour.GREEN"
    assert str(decoder.decode_key(OLD.named("com.acme.Colour$1") + b"\x02")) == "com.acme.Colour$1.GREEN"
    for ordinal in (b"\x00", b"\x03"):
        with pytest.raises(SerializationError, match=r"null where|constant 2 of"):
            decoder.decode_key(OLD.named("com.acme.Colour") + ordinal)


def test_nesting_is_limited_and_far_below_what_python_can_do() -> None:
    def nested(deep: int) -> bytes:
        return OLD.named(LIST) + b"\x01" + (OLD.again(0) + b"\x01") * (deep - 2) + OLD.again(0) + b"\x00"

    assert str(decoded(nested(64))) == "[" * 64 + "]" * 64
    for deep in (65, 100_000):
        with pytest.raises(SerializationError, match="nested more than 64 deep"):
            decoded(nested(deep))
    with pytest.raises(SerializationError):
        decoded(OLD.named("[" * 5000 + "I") + b"\x01")


def test_references_do_not_nest_deeper_than_objects_do() -> None:
    def tower(floors: int) -> bytes:
        # A list of lists of thirty levels each, and the innermost list holds the list before it.
        built = OLD.named(LIST) + OLD.number(floors)
        first = [1, *range(32, 32 + 30 * floors, 30)]
        for number in range(floors):
            before = b"\x01\x00" + OLD.number(first[number - 1] + 2) if number else OLD.again(0) + b"\x00"
            built += (OLD.again(0) + b"\x01") * 30 + before
        return built

    assert str(decoded(tower(2))).count("[") == 1 + 31 + 61
    for floors in (3, 60):
        with pytest.raises(SerializationError, match="nested more than 64 deep"):
            decoded(tower(floors))


def test_a_reference_to_an_object_of_another_class_is_refused() -> None:
    data = OLD.named(LIST) + b"\x02" + OLD.string("x") + b"\x03\x02"
    with pytest.raises(SerializationError, match=r"another class than 'java\.lang\.String'"):
        decoded(data)


def test_references_that_multiply_are_counted_as_often_as_they_are_written_out() -> None:
    def doubling(deep: int) -> bytes:
        # Lists of two, the second element is the first again; the innermost is the object `deep`.
        inner = OLD.named(LIST) + b"\x02" + (OLD.again(0) + b"\x02") * (deep - 1)
        ends = OLD.string("x") + b"\x03" + bytes([deep + 2])  # a string, and again
        return inner + ends + b"".join(b"\x01\x00" + bytes([number + 2]) for number in range(deep - 1, 0, -1))

    value = decoded(doubling(10))
    assert value.describe(10_000).count("'x'") == 1024
    with pytest.raises(SerializationError, match=r"more than 100.* objects after each reference"):
        decoded(doubling(50))


HUGE, ZEROS = NEW.number(2**31), b"\x00" * 50
REFUSED = {
    # What says that it is huge takes neither time nor memory.
    "a list of nothing": NEW.named(LIST) + NEW.flagged(True, 2**31) + NEW.named(EMPTY_LISTS, 1) + b"\x00",
    "a list of nulls": NEW.named(LIST) + NEW.flagged(True, 2**31) + b"\x00",
    "a list of what is not there": NEW.named(LIST) + NEW.flagged(False, 2**31) + ZEROS,
    "array": NEW.named("[I") + HUGE + ZEROS,
    "array of doubles": NEW.named("[D") + HUGE + ZEROS,
    "bytes": NEW.named("[B") + HUGE + ZEROS,
    "map": NEW.named("java.util.HashMap") + HUGE + ZEROS,
    "enum set": NEW.named("java.util.RegularEnumSet") + NEW.named("a.B", 1) + HUGE,
    "string": b"\x03" + NEW.flagged(True, 2**31) + b"x" * 50,
    "number": NEW.named("java.math.BigInteger") + NEW.number(2000) + b"\x01" * 1999,
    # What no Java program writes.
    "number of no bytes": NEW.named("java.math.BigInteger") + b"\x01",
    "null in the place of a list": NEW.named(LIST) + b"\x00",
    "the class of no elements": NEW.named(LIST) + b"\x81\x03\x00",
    "not a comparator": NEW.named("java.util.TreeMap") + b"\x01" + NEW.string("x"),
    "nor this": NEW.named("java.util.TreeMap") + b"\x01" + NEW.named("java.time.Month", 1) + b"\x01",
    "an enum set of no class": NEW.named("java.util.RegularEnumSet") + b"\x00\x00",
    "null in an enum set": NEW.named("java.util.RegularEnumSet") + NEW.named("a.B", 1) + b"\x01\x00",
    "no state": NEW.named("org.apache.storm.spout.CheckPointState") + b"\x00\x02",
    "a state beyond the last": NEW.named("org.apache.storm.spout.CheckPointState") + b"\x04\x02",
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_huge_or_what_no_java_program_writes_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="cannot decode"):
        decoded(data, STORM_2_6)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("'a\\ud800\\x1b'", OLD.string("a\ud800\x1b")),
        ("bytes[3] 00ff10", OLD.named("[B") + b"\x04\x00\xff\x10"),
        ("2017-07-14T02:40:00.123Z", OLD.named("java.util.Date") + OLD.number(1_500_000_000_123, 9)),
        ("COMMITTING 12", OLD.named("org.apache.storm.spout.CheckPointState") + b"\x01\x02\x18"),
        ("1.50", OLD.named("java.math.BigDecimal") + b"\x03\x00\x96\x04"),
    ],
)
def test_a_value_has_a_text_for_people(text: str, data: bytes) -> None:
    assert str(decoded(data)) == text


def test_a_value_without_its_wrapper_is_refused_with_what_to_look_at() -> None:
    with pytest.raises(SerializationError, match=r"not a value of Storm 1\.2.*Base64"):
        StormDecoder(STORM_1).decode_value(b"\x09\x02")
    assert str(StormDecoder(STORM_1).decode_value(wrap_for_storm_1_2(b"\x09\x02"))) == "1"
    assert StormDecoder(STORM_1).decode_value(wrap_for_storm_1_2(None)).to_json() == {"t": "tombstone"}


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [(b"word", b"12")],
        [(b"d29yZA==", b"MTI=")],
        [(b"\x03\x01\x82a", wrap_for_storm_1_2(b"\x09\x02")), (b"\x03\x01\x82b", b"\x0c\x01\x00")],
        [(b"AwGCYQ==", b"CQI="), (b"\x03\x01\x82b", b"\x09\x02")],
        [(b"AwGCYQ", b"CQI=")],
        [(b"AwGCYQ==\nAwGCYQ==", b"CQI=")],
    ],
)
def test_what_is_not_of_one_generation_of_storm_is_not_taken_for_it(entries: list[tuple[bytes, bytes]]) -> None:
    assert detect(entries) is None
