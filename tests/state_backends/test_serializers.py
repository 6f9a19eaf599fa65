"""Keys and values by pickle, by a user's serializer, and under several schema versions, in every store."""

import pickle
import zlib
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from anchorbolt import errors
from anchorbolt.serialization import Codec, JsonCodec, MsgpackCodec, pack
from anchorbolt.serialization.codecs import PickleCodec, Schema, codec_named, tagged, untagged
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.state_backends.namespaces import NAMESPACE, Namespace
from tests.support.serializers import Cell, Money

HERE = "tests.support.serializers"
VALUES, KEYS = "valueSerializerClass", "keySerializerClass"


def money() -> Codec:
    return codec_named(f"{HERE}.MoneySerializer", VALUES, for_keys=False)


def cells() -> Codec:
    return codec_named(f"{HERE}.CellSerializer", KEYS, for_keys=True)


def careless(*, for_keys: bool = False) -> Codec:
    return codec_named(f"{HERE}.Careless", VALUES, for_keys=for_keys)


def test_entries_of_the_users_own_classes_are_read_back_by_another_process(each_provider: StateProvider) -> None:
    namespace = Namespace(each_provider)
    state = namespace.wave(key_codec=cells(), value_codec=money())
    state[Cell(1, 2)] = Money(7)
    state[Cell(2, 1)] = Money(8, "USD")
    assert state[Cell(1, 2)] == Money(7)
    namespace.commit(state)
    assert namespace.header() == f"keys cells/1, values {HERE}.MoneySerializer/3"
    assert namespace.stored() == {b"[1, 2]": b"7 EUR", b"[2, 1]": b"8 USD"}
    again = namespace.wave(key_codec=cells(), value_codec=money())
    assert dict(again.items()) == {Cell(1, 2): Money(7), Cell(2, 1): Money(8, "USD")}
    assert again.delete(Cell(2, 1)) == Money(8, "USD")
    again[Cell(1, 2)] += 1
    namespace.commit(again)
    assert dict(namespace.wave(key_codec=cells(), value_codec=money())) == {Cell(1, 2): Money(8)}


def test_what_the_user_pickles_is_read_back_and_counters_stay_as_fast(each_provider: StateProvider) -> None:
    namespace = Namespace(each_provider)
    state = namespace.wave(value_codec=PickleCodec())
    state.put_many({"money": Money(7), "count": 2**80, "text": "é", "list": [Money(1)]})
    state["list"].append("changed in place")
    namespace.commit(state)
    assert namespace.header() == "keys msgpack/2, values pickle/1"
    again = namespace.wave(value_codec=PickleCodec())
    assert dict(again.items()) == {"money": Money(7), "count": 2**80, "text": "é", "list": [Money(1)]}


class Explodes:
    """Its pickle names a function that must not be called."""

    called: list[str] = []  # noqa: RUF012 - shared on purpose

    def __reduce__(self) -> Any:
        return Explodes.called.append, ("called",)


def test_a_damaged_pickle_never_reaches_the_unpickler() -> None:
    codec = PickleCodec()
    forged = pickle.dumps(Explodes())
    for data in (b"", b"p", b"p0000", forged, b"p1234" + forged, codec.encode(Money(1))[:-1]):
        with pytest.raises(errors.SerializationError, match="checksum is wrong"):
            codec.decode(data)
    assert Explodes.called == []


def test_a_pickle_whose_class_is_gone_is_reported() -> None:
    codec = PickleCodec()
    data = codec.encode(Money(1))
    body = data[5:].replace(b"Money", b"Moneh")
    with pytest.raises(errors.SerializationError, match="cannot be unpickled: AttributeError"):
        codec.decode(b"p" + zlib.crc32(body).to_bytes(4, "big") + body)


def test_pickle_is_refused_for_keys() -> None:
    with pytest.raises(errors.ConfigError, match="equal keys can have different pickles") as caught:
        codec_named("pickle", KEYS, for_keys=True)
    assert caught.value.key == KEYS


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module.Serializer", "no_such_module cannot be imported: ModuleNotFoundError"),
        (f"{HERE}.MoneySerialiser", "Did you mean 'MoneySerializer'?"),
        (f"{HERE}.Money", "not a subclass of anchorbolt.serialization.codecs.Serializer"),
        (f"{HERE}.NeedsMore", "could not be made without arguments: TypeError"),
        (f"{HERE}.TakenName", "whose name is 'msgpack'"),
        (f"{HERE}.BadVersion", "version 0"),
    ],
)
def test_a_class_that_is_no_serializer_is_refused_by_name(name: str, says: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        codec_named(name, VALUES, for_keys=False)
    assert caught.value.message.startswith(f"{VALUES} is {name}, ")
    assert says in caught.value.message


def test_what_a_serializer_raises_or_returns_wrongly_is_refused_with_namespace_key_and_class() -> None:
    state = Namespace(MemoryStateProvider()).wave(value_codec=careless())
    for value, says in [("raises", "RuntimeError: not this one"), ("text", "returned str. It must return bytes")]:
        with pytest.raises(errors.UnsupportedValue) as caught:
            state["key"] = value
        for part in (NAMESPACE, "'key'", f"{HERE}.Careless", says):
            assert part in caught.value.message
    assert "key" not in state


@pytest.mark.parametrize(("key", "says"), [("empty", "returned no bytes"), ("other", "is not canonical")])
def test_a_key_serializer_that_is_not_canonical_is_refused(key: str, says: str) -> None:
    state = Namespace(MemoryStateProvider()).wave(key_codec=careless(for_keys=True))
    with pytest.raises(errors.UnsupportedValue, match=says):
        state[key] = 1
    with pytest.raises(errors.UnsupportedValue, match=says):
        state.get(key)
    state["same"] = 1
    assert dict(state.items()) == {"same": 1}


@pytest.mark.parametrize(
    ("codec", "value", "data", "says"),
    [
        (money(), Money(1), b"lots", f"{HERE}.MoneySerializer.loads raised"),
        (MsgpackCodec(), 1, b"\xc1 not msgpack", ""),
    ],
)
def test_a_stored_value_that_cannot_be_decoded_is_reported_and_cannot_be_swallowed(
    codec: Codec, value: Any, data: bytes, says: str
) -> None:
    namespace = Namespace(MemoryStateProvider())
    namespace.store({"a": value}, value_codec=codec)
    namespace.damage({pack("a"): data})
    again = namespace.wave(value_codec=codec)
    with pytest.raises(errors.StateCorrupted, match=f"key 'a' cannot be decoded: {says}"):
        again.get("a")
    again["b"] = value
    with pytest.raises(errors.StateCorrupted, match="key 'a'"):
        again.prepare_commit(1)


def test_a_codec_travels_to_another_process_as_its_class() -> None:
    codec = cloudpickle.loads(cloudpickle.dumps(cells()))
    assert codec.header == "cells/1"
    assert codec.decode(codec.encode(Cell(3, 4))) == Cell(3, 4)
    with pytest.raises(errors.UnsupportedValue):
        codec.encode("no cell")


def test_a_users_bytes_that_look_like_a_tag_are_no_schema_version() -> None:
    namespace = Namespace(MemoryStateProvider())
    namespace.store({"key": "tag"}, value_codec=careless())
    assert namespace.wave(value_codec=careless())["key"] == "tag"


def counted(_: Any, value: Any, version: int) -> Any:
    """Version 1: an int. Version 2: a dict with a count. Version 3: a list of count and key's length."""
    return {"count": value} if version == 1 else [value["count"], 0]


FIRST, SECOND, THIRD = Schema(), Schema(2, counted), Schema(3, counted)


@pytest.mark.parametrize("codec", [MsgpackCodec, JsonCodec, PickleCodec])
def test_a_namespace_holds_values_of_several_versions_at_a_time(
    each_provider: StateProvider, codec: Callable[[], Codec]
) -> None:
    namespace = Namespace(each_provider)
    namespace.store({"a": 1, "b": 2, "c": 3}, value_codec=codec(), schema=FIRST)
    header = namespace.header()
    state = namespace.wave(value_codec=codec(), schema=SECOND)
    assert state["b"] == {"count": 2}
    state["b"] = {"count": 20}
    namespace.commit(state)
    state = namespace.wave(value_codec=codec(), schema=THIRD)
    state.prefetch(["a", "b"])
    assert state["a"] == [1, 0]
    state["a"].append("changed in place")
    assert dict(state.items()) == {"a": [1, 0], "b": [20, 0], "c": [3, 0]}
    assert state.delete("c") == [3, 0]
    state["a"] = [100, 1]
    namespace.commit(state)
    versions = {key: untagged(data)[0] for key, data in namespace.stored().items()}
    assert versions == {pack("a"): 3, pack("b"): 2}
    assert namespace.header() == header == f"keys msgpack/2, values {codec().header}"
    assert dict(namespace.wave(value_codec=codec(), schema=THIRD)) == {"a": [100, 1], "b": [20, 0]}


def test_a_value_of_a_later_version_is_refused_naming_both(each_provider: StateProvider) -> None:
    namespace = Namespace(each_provider)
    namespace.store({"a": [1, 0]}, schema=THIRD)
    for schema in (FIRST, SECOND):
        older = namespace.wave(schema=schema)
        with pytest.raises(errors.CodecMismatch, match=f"schema version 3, .* state_schema_version {schema.version}"):
            older.get("a")
        older["b"] = 1
        with pytest.raises(errors.CodecMismatch):
            older.prepare_commit(1)
    assert len(namespace.stored()) == 1


def test_a_job_without_versions_stores_what_it_always_did() -> None:
    namespace = Namespace(MemoryStateProvider())
    namespace.store({"a": 1, "b": [2]})
    assert namespace.stored() == {pack("a"): pack(1), pack("b"): pack([2])}


def test_an_upcast_that_raises_is_reported_with_key_version_and_line_and_cannot_be_swallowed() -> None:
    def unfinished(key: Any, value: Any, version: int) -> Any:
        raise LookupError("no way from there")

    namespace = Namespace(MemoryStateProvider())
    namespace.store({"a": 1})
    state = namespace.wave(schema=Schema(2, unfinished))
    with pytest.raises(errors.SerializationError) as caught:
        state.get("a")
    for part in (NAMESPACE, "'a'", "version 1", "LookupError: no way from there", "test_serializers.py, line "):
        assert part in caught.value.message
    state["b"] = {"count": 1}
    with pytest.raises(errors.SerializationError):
        state.prepare_commit(1)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\xc1x12", b"\xc0", b"\xc1v\x00\x01", b"\xc1v\x00\x07\xc1v"])
def test_any_encoding_comes_back_from_under_its_tag(data: bytes) -> None:
    for version in (1, 2, 255, 256, 65_535):
        assert untagged(tagged(data, version)) == (version, data)


@pytest.mark.parametrize("data", [b"\xc1v", b"\xc1v\x00", b"\xc1v\x00\x00", b"\xc1v\x00\x00 and more"])
def test_a_tag_without_a_version_is_corrupted(data: bytes) -> None:
    with pytest.raises(errors.SerializationError, match="none follows"):
        untagged(data)
    namespace = Namespace(MemoryStateProvider())
    namespace.store({"a": 1})
    namespace.damage({pack("a"): data})
    for schema in (FIRST, SECOND):
        with pytest.raises(errors.StateCorrupted, match="'a'") as caught:
            namespace.wave(schema=schema).get("a")
        assert isinstance(caught.value, errors.AnchorboltError)
