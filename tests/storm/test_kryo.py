"""What Storm and Kryo really wrote, decoded: it equals what was written down beside it."""

import json
from typing import Any

import pytest

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm.kryo import StormDecoder, detect
from anchorbolt.storm.wrapper import Generation, unwrap
from tests.support.storm_fixtures import Dump, Form, dumps, forms, holds_object

ENUMS = {
    "anchorfix.Colour": ["RED", "GREEN", "BLUE"],
    "KryoForms$Colour": ["RED", "GREEN", "BLUE"],
    "KryoForms$Body": ["ONE", "TWO"],
}
KRYO = [("4.0.2", Generation.STORM_2_0), ("5.6.2", Generation.STORM_2_6)]


def decoders(dump: Dump, namespace: str) -> tuple[StormDecoder, StormDecoder]:
    """For keys and for values, told what Storm's configuration said and which enums the user has."""
    config = dump.expected[namespace].get("provider_config", {})
    keys, values = ([config[name]] if name in config else [] for name in ("keyClass", "valueClass"))
    return (
        StormDecoder(dump.generation, registered=keys, enums=ENUMS),
        StormDecoder(dump.generation, registered=values, enums=ENUMS),
    )


def as_text(form: Any) -> str:
    return json.dumps(form, sort_keys=True)


def cuts(data: bytes) -> range:
    """Where to cut: everywhere, in long data at a hundred places."""
    return range(0, len(data), 1 + len(data) // 100)


@pytest.mark.parametrize("dump", dumps(), ids=str)
def test_each_fixture_holds_what_it_has_to_hold_or_is_unsupported_by_its_class(dump: Dump) -> None:
    hashes = dump.binary()
    unsupported = set()
    for namespace, expected in dump.expected.items():
        keys, values = decoders(dump, namespace)
        for name, part in ((namespace, "entries"), (f"{namespace}$prepare", "prepare")):
            wanted = {as_text(key): value for key, value in expected[part] or []}
            found = {}
            for field, value in hashes.get(name, {}).items():
                key = as_text(keys.decode_key(field).to_json())
                if holds_object(wanted[key]):
                    with pytest.raises(UnsupportedJavaClass, match=r"Java class 'anchorfix\.Pojo'") as caught:
                        values.decode_value(value)
                    assert (caught.value.java_class, caught.value.class_id) == ("anchorfix.Pojo", None)
                    found[key] = wanted[key]
                    unsupported.add(namespace)
                else:
                    found[key] = values.decode_value(value).to_json()
            assert found == wanted
            assert (name in hashes) == bool(wanted)
    assert unsupported == ({"pojo-1"} if "pojo-1" in dump.expected else set())


@pytest.mark.parametrize("dump", [each for each in dumps() if not each.shared], ids=str)
def test_whatever_is_cut_off_or_added_is_an_error(dump: Dump) -> None:
    for namespace in dump.expected:
        keys, values = decoders(dump, namespace)
        for field, value in dump.binary().get(namespace, {}).items():
            wrapped = unwrap(value, dump.generation)
            payload = value if wrapped is None else wrapped.payload
            for decode, data in ((keys.decode_key, field), (values.decode_key, payload), (values.decode_value, value)):
                for cut in cuts(data or b""):
                    with pytest.raises(SerializationError):
                        decode(data[:cut])
                if data:
                    with pytest.raises(SerializationError):
                        decode(data + b"\x00")


@pytest.mark.parametrize("dump", dumps(), ids=str)
def test_each_hash_shows_its_generation_without_a_word_about_its_configuration(dump: Dump) -> None:
    for name, fields in dump.hashes.items():
        wanted = None if name.endswith("$txid") else (dump.generation, dump.base64)
        assert detect(fields.items()) == wanted, name
    for name, fields in dump.binary().items():
        assert detect(fields.items()) == (dump.generation, False), name


@pytest.mark.parametrize(("kryo", "generation"), KRYO)
def test_each_form_that_kryo_wrote_is_what_it_was(kryo: str, generation: Generation) -> None:
    decoder = StormDecoder(generation, enums=ENUMS)
    supported = [form for form in forms(kryo) if not form.name.startswith("unsupported")]
    assert len(supported) >= 200
    for form in supported:
        assert decoder.decode_key(form.data).to_json() == form.form, form.name
        for cut in cuts(form.data):
            with pytest.raises(SerializationError):
                decoder.decode_key(form.data[:cut])


@pytest.mark.parametrize(("kryo", "generation"), KRYO)
def test_each_class_that_is_not_known_is_named(kryo: str, generation: Generation) -> None:
    named = {}
    for form in forms(kryo):
        if form.name.startswith("unsupported"):
            with pytest.raises(UnsupportedJavaClass) as caught:
                StormDecoder(generation, enums=ENUMS).decode_key(form.data)
            named[form.name.removeprefix("unsupported: ")] = caught.value.java_class
    assert named == {
        "a class with one int": "KryoForms$Count",
        "a list of such": "KryoForms$Count",
        "a map to such": "KryoForms$Count",
        "an array of such": "[LKryoForms$Count;",
        "an array of an enum": "[LKryoForms$Colour;",
        "AtomicLong": "java.util.concurrent.atomic.AtomicLong",
        "BitSet": "java.util.BitSet",
        "Locale": "java.util.Locale",
        "Timestamp": "java.sql.Timestamp",
        "SimpleEntry": "java.util.AbstractMap$SimpleEntry",
    }


@pytest.mark.parametrize(("kryo", "generation"), KRYO)
def test_an_enum_set_shows_ordinals_where_the_enum_is_not_known(kryo: str, generation: Generation) -> None:
    enum_set = form_named(kryo, "EnumSet")
    form = StormDecoder(generation).decode_key(enum_set.data).to_json()
    assert form["v"] == [{**constant, "v": None} for constant in enum_set.form["v"]]
    enum_map = form_named(kryo, "EnumMap")
    form = StormDecoder(generation).decode_key(enum_map.data).to_json()
    assert [key["ordinal"] for key, _ in form["v"]] == [1, 2]


def test_what_is_shared_is_one_object_and_shown_twice() -> None:
    shared = form_named("4.0.2", "one array twice in an Object[]")
    value: Any = StormDecoder(Generation.STORM_2_0).decode_key(shared.data)
    assert value.items[0] is value.items[1]
    assert str(value) == "[[1, 2], [1, 2]]"


def form_named(kryo: str, name: str) -> Form:
    return next(form for form in forms(kryo) if form.name == name)
