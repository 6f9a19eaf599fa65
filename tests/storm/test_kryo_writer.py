"""Values that were read are written again: byte for byte as Storm and Kryo themselves wrote them, in each format."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import StormDecoder
from anchorbolt.storm.kryo.encoder import StormEncoder
from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.storm_data import in_lines, one_line
from tests.storm.kryo_encoder import Encoder
from tests.storm.test_kryo import ENUMS, KRYO, decoders
from tests.support.storm_fixtures import Dump, Form, dumps, forms


def name_of(form: Form) -> str:
    """Two forms with the name of a list are of different classes."""
    return (
        f"{form.name}: {json.dumps([each.get('class') for each in form.form.get('v', ()) if isinstance(each, dict)])}"
    )


KRYO_5_FORMS = {name_of(form): form for form in forms("5.6.2")}
RELEASES = [each for each in dumps() if not each.shared and not each.name.endswith("wordcount")]

# Other bytes of the same value: what one release does not keep.
UNORDERED = {"Set.of, three", "Map.of, two"}  # in another order in each process
WITHOUT_COMPARATOR = "PriorityQueue, reverse"
SHARED = {
    "one array twice in an Object[]",
    "one array twice in an int[][]",
    "one string twice in a String[]",
    "nCopies",
}
SHARED |= {"one list in a list, a map and itself"}


def written(generation: Generation, decoder: StormDecoder, data: bytes) -> bytes:
    return StormEncoder(generation).encode_key(decoder.decode_key(data)).data


@pytest.mark.parametrize(("kryo", "generation"), KRYO)
@pytest.mark.parametrize("enums", [{}, ENUMS])
def test_each_form_is_written_as_kryo_wrote_it(kryo: str, generation: Generation, enums: dict[str, list[str]]) -> None:
    decoder = StormDecoder(generation, enums=enums)
    same = 0
    for form in forms(kryo):
        try:
            found = written(generation, decoder, form.data)
        except UnsupportedJavaClass:
            continue
        assert found == form.data, form.name
        same += 1
    assert same > 170


def test_each_form_of_kryo_4_is_written_as_kryo_5_writes_it() -> None:
    decoder = StormDecoder(Generation.STORM_2_0, enums=ENUMS)
    for form in forms("4.0.2"):
        if form.name.startswith("unsupported"):
            continue
        if name_of(form) not in KRYO_5_FORMS:
            with pytest.raises(SerializationError, match="contains itself"):
                written(Generation.STORM_2_6, decoder, form.data)
        elif form.name not in {*UNORDERED, WITHOUT_COMPARATOR}:
            found = written(Generation.STORM_2_6, decoder, form.data)
            assert found == KRYO_5_FORMS[name_of(form)].data, form.name


def test_each_form_of_kryo_5_is_written_as_kryo_4_writes_it_but_for_what_was_one_object() -> None:
    decoder = StormDecoder(Generation.STORM_2_6, enums=ENUMS)
    older = StormDecoder(Generation.STORM_2_0, enums=ENUMS)
    different = set()
    for form in forms("4.0.2"):
        if form.name.startswith("unsupported") or name_of(form) not in KRYO_5_FORMS:
            continue
        newer = KRYO_5_FORMS[name_of(form)]
        found = written(Generation.STORM_2_0, decoder, newer.data)
        assert older.decode_key(found).to_json() == newer.form, form.name
        if found != form.data and not (form.name.startswith("list of ") and form.name.endswith(" twice")):
            different.add(form.name)
    assert different <= UNORDERED | SHARED


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(RELEASES, RELEASES)), ids=lambda dump: dump.name.removeprefix("storm-")
)
def test_what_one_release_wrote_becomes_what_another_one_wrote(source: Dump, target: Dump) -> None:
    """The same program put the same values into each release's state."""
    wanted = target.binary()
    compared = 0
    for name, fields in source.binary().items():
        namespace = name.removesuffix("$prepare")
        is_lost = namespace == "shared-1" and source.generation is Generation.STORM_2_6 is not target.generation
        # Storm 1.0 cannot delete, so the program put other values there.
        if name not in wanted or namespace == "pojo-1" or is_lost or name == "prepared-1$prepare":
            continue
        config = source.expected[namespace].get("provider_config", {})
        classes = ([config[part]] if part in config else [] for part in ("keyClass", "valueClass"))
        keys, values = (StormEncoder(target.generation, registered=each) for each in classes)
        key_decoder, value_decoder = decoders(source, namespace)
        found = {
            keys.encode_key(key_decoder.decode_key(field)).data: values.encode_value(
                value_decoder.decode_value(stored)
            ).data
            for field, stored in fields.items()
        }
        assert found == wanted[name], name
        compared += 1
    assert compared >= 50


@given(st.text(st.characters(), max_size=70))
def test_any_text_is_written_as_it_is_read(text: str) -> None:
    for generation in (Generation.STORM_2_0, Generation.STORM_2_6):
        data = Encoder(kryo_5=generation is Generation.STORM_2_6).string(text)
        assert written(generation, StormDecoder(generation), data) == data


@given(st.binary(max_size=400))
def test_base64_text_is_that_of_storm(data: bytes) -> None:
    assert base64_text.encode(data, in_lines=True) == in_lines(data)
    assert base64_text.encode(data, in_lines=False) == one_line(data)
