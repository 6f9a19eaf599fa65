"""Recognition of a hash as Base64 or binary. Conversion, which is faster, must decide the same."""

import base64
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.migration_tools.base64_to_binary.conversion import Conversion, Unfit, Wrapper
from anchorbolt.storm.kryo.stored_form import Content, Recognition, Verdict
from tests.migration_tools.storm_data import (
    Entries,
    in_lines,
    integer,
    one_line,
    plain,
    storm_1_0,
    storm_1_1,
    storm_1_2,
    string,
    words,
)
from tests.support.storm_fixtures import Dump, dumps


def page_of(entries: Entries) -> list[bytes]:
    return list(itertools.chain.from_iterable(entries.items()))


def recognise(entries: Entries) -> Verdict:
    recognition = Recognition()
    recognition.add(page_of(entries))
    return recognition.verdict()


def convert(entries: Entries, wrapper: Wrapper, content: Content | None = None) -> Entries:
    conversion = Conversion(wrapper, content)
    page = conversion.page(page_of(entries))
    conversion.finish()
    return dict(zip(page[::2], page[1::2], strict=True))


@pytest.mark.parametrize("dump", dumps(), ids=str)
def test_each_hash_of_each_release_is_recognised(dump: Dump) -> None:
    by_release = {"1.0": Content.STORM_1_0, "1.1": Content.STORM_1_1}
    expected = by_release.get(dump.storm[:3], Content.BINARY)
    for key, entries in dump.hashes.items():
        if not key.endswith("$txid"):
            assert recognise(entries).content is expected, key


@pytest.mark.parametrize("dump", [each for each in dumps() if each.storm[:3] in ("1.0", "1.1")], ids=str)
def test_what_was_converted_is_recognised_as_binary(dump: Dump) -> None:
    for key, entries in dump.hashes.items():
        if not key.endswith("$txid"):
            for wrapper in Wrapper:
                verdict = recognise(convert(entries, wrapper))
                assert verdict.content is Content.BINARY, (key, wrapper)
                assert verdict.wrapped_as_1_1 == (wrapper is Wrapper.KEEP and dump.storm.startswith("1.1"))


def test_a_hash_of_storms_with_one_bad_entry_is_refused_by_its_name() -> None:
    for entries in (storm_1_0(words(50)), storm_1_1(words(50))):
        for field, value in ((b"YW-_", b"Ag=="), (b"AwFi4Q==", b"Ag"), (b"AwFi4Q==", b"\xff")):
            bad = {**entries, field: value}
            assert repr(field.decode()) in recognise(bad).reason
            with pytest.raises(Unfit, match="is not Base64"):
                convert(bad, Wrapper.STORM_1_2)


def test_a_few_base64_entries_among_binary_ones_are_refused_by_name() -> None:
    mixed = {**plain(storm_1_0(words(50))), **storm_1_0({string("odd"): integer(0)})}
    verdict = recognise(mixed)
    assert verdict.content is None
    assert repr(one_line(string("odd")).decode()) in verdict.reason


@pytest.mark.parametrize("many_and_one", [(storm_1_1, storm_1_0), (storm_1_0, storm_1_1)])
def test_one_value_that_is_wrapped_unlike_the_others_is_refused_by_name(many_and_one: tuple[Any, Any]) -> None:
    many, one = many_and_one
    mixed = {**many(words(50)), **one({string("odd"): integer(0)})}
    assert repr(one_line(string("odd")).decode()) in recognise(mixed).reason
    with pytest.raises(Unfit, match=r"wrapper of Storm 1\.1"):
        convert(mixed, Wrapper.KEEP)


@pytest.mark.parametrize(
    ("entries", "content"),
    [
        # From a serializer of the user's own: text, or any bytes, some of them with padding.
        ({one_line(b"key-%d" % n): one_line(b'{"n": %d}' % n) for n in range(9)}, Content.STORM_1_0),
        ({one_line(b"\xfe%d" % n): one_line(b"\xff\x00%d" % n) for n in range(9, 12)}, Content.STORM_1_0),
        # Storm keeps the bytes of such a serializer in its own wrapper.
        (storm_1_1({b"\xfe\xff\xfd": b"\x99"}), Content.STORM_1_1),
        (storm_1_2({b"user": b"abcd"}), Content.BINARY),
        # Binary without any wrapper, as --wrapper keep leaves it.
        ({b"\x03\x01abc\xe4": b"\x02\x08"}, Content.BINARY),
        ({b"user": b"\x02\x08", b"abcd": b"\x02\x09"}, Content.BINARY),
        ({b"name": b"Lovelace, A.", b"city": b"Rome"}, Content.BINARY),
        # Words of the Base64 alphabet: it may be either.
        ({b"abcd": b"AAAA"}, None),
        ({b"user": b"adam", b"city": b"Rome"}, None),
        ({b"Carl": b"Card"}, None),
        # Begins with the id of Java's void, of which there are no objects.
        ({one_line(b"\x0b\xff\xfe"): one_line(b"\x0b\x01\xfd")}, None),
        # Objects of registered classes: each begins with its id and the marker of a new object.
        ({one_line(b"\x0c\x01\xfe"): one_line(b"\x0d\x01\xfd")}, Content.STORM_1_0),
        ({one_line(b"\x0c\x02\xfe"): one_line(b"\x0d\x02\xfd")}, None),
        # Damaged Base64, for nothing in it is of another alphabet.
        ({b"abc": b"AAAA"}, None),
        ({b"name": b"Ada Lovelace", b"city": b"Rome"}, None),
        ({b"": b""}, None),
    ],
)
def test_data_of_other_serializers_and_of_other_programs(entries: Entries, content: Content | None) -> None:
    verdict = recognise(entries)
    assert verdict.content is content
    assert bool(verdict.reason) == (content is None)


_BYTES = st.binary(max_size=60)
_TEXTS = st.one_of(
    _BYTES,
    _BYTES.map(one_line),
    _BYTES.map(in_lines),
    _BYTES.map(base64.encodebytes),
    _BYTES.map(base64.urlsafe_b64encode),
    st.text(max_size=9).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"", b"abcd", b"AAAA", one_line(string("key")), one_line(integer(7))]),
)
_WRAPPED = _BYTES.map(lambda data: next(iter(storm_1_1({b"": data}).values())))


@given(st.dictionaries(_TEXTS, st.one_of(_TEXTS, _WRAPPED), min_size=1, max_size=6))
def test_the_fast_way_converts_just_what_is_recognised_as_base64(entries: Entries) -> None:
    verdict = recognise(entries)
    try:
        converted = convert(entries, Wrapper.KEEP)
    except Unfit:
        assert verdict.content in (Content.BINARY, None)
    else:
        assert verdict.content in (Content.STORM_1_0, Content.STORM_1_1)
        assert converted == plain(entries)


@given(st.dictionaries(_BYTES, _BYTES, min_size=1))
def test_what_the_user_names_is_converted_whatever_it_looks_like(entries: Entries) -> None:
    assert convert(storm_1_0(entries), Wrapper.KEEP, Content.STORM_1_0) == entries
    assert convert(storm_1_0(entries), Wrapper.STORM_1_2, Content.STORM_1_0) == storm_1_2(entries)
    assert convert(storm_1_1(entries), Wrapper.STORM_1_2, Content.STORM_1_1) == storm_1_2(entries)
    # A value of Storm 1.0 that is a Guava Optional itself.
    assert convert(storm_1_1(entries), Wrapper.STORM_1_2, Content.STORM_1_0) == storm_1_2(plain(storm_1_1(entries)))


def test_storm_1_1_is_not_taken_for_named_where_a_value_has_no_wrapper() -> None:
    with pytest.raises(Unfit, match=r"not in the wrapper of Storm 1\.1"):
        convert(storm_1_0(words(3)), Wrapper.STORM_1_2, Content.STORM_1_1)
