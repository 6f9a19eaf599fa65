"""Namespaces listed, keys looked up, entries scanned: on every backend, and with every codec."""

from contextlib import closing
from typing import Any

import pytest

from anchorbolt.errors import ConfigError, StateError, UnsupportedValue
from anchorbolt.migration_tools.entries import Codecs, Entry, get_entries, measured, namespace_summaries, scan_entries
from anchorbolt.serialization import JsonCodec, MsgpackCodec
from anchorbolt.serialization.codecs import PickleCodec, Serializer, SerializerCodec, tagged
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing.conformance.base import staged
from anchorbolt.util.values import key_from_text
from tests.migration_tools.conftest import ALL, HEADER, MSGPACK, put

encode = MsgpackCodec().encode
VALUES = {"apple": 1, "Ünï": [1.5, None], ("a", 7): {"x": b"\x00"}, b"\xff": True, 7: "seven"}


def fill(provider: StateProvider, values: dict[Any, Any], codecs: Codecs = MSGPACK) -> str:
    """Commit these values as txid 0 of a new namespace; return its name."""
    items = [(codecs.keys.encode(key), codecs.values.encode(value)) for key, value in values.items()]
    return put(provider, items, f"keys {codecs.keys.header}, values {codecs.values.header}")


def scanned(provider: StateProvider, name: str, codecs: Codecs = MSGPACK, **options: Any) -> dict[Any, Any]:
    with scan_entries(provider, name, codecs, **options) as (_, pages):
        entries = [entry for page in pages for entry in page]
    assert all(not entry.key.problem and entry.value and not entry.value.problem for entry in entries)
    return {entry.key.value: entry.value.value for entry in entries if entry.value}


def got(provider: StateProvider, name: str, *keys: str, codecs: Codecs = MSGPACK, **options: bool) -> list[Entry]:
    return [entry for _, entry in get_entries(provider, [name], keys, codecs, **options)[1]]


@pytest.mark.parametrize("store", ALL, indirect=True)
def test_a_store_is_looked_into(store: StateProvider) -> None:
    name = fill(store, VALUES)
    with closing(store.open(name)) as storage:
        attempt = staged(storage, [(encode("pear"), encode(2))], txid=1, base=0, codec=HEADER)
        assert storage.count() in (None, len(VALUES))
        keys, size = measured(storage)
        assert keys == len(VALUES)
        assert size == sum(len(key) + len(value) for page in storage.scan() for key, value in page)
    [summary] = namespace_summaries(store, name, count=True)
    assert (summary.committed, summary.keys, summary.attempts) == (0, len(VALUES), 1)
    assert summary.codec == HEADER
    assert scanned(store, name) == VALUES
    assert scanned(store, name, attempt=attempt) == {**VALUES, "pear": 2}
    found = got(store, name, "apple", "7", '["a", 7]', r"b'\xff'", "absent")
    assert [entry.value and entry.value.value for entry in found] == [1, "seven", {"x": b"\x00"}, True, None]


@pytest.mark.parametrize("store", ALL, indirect=True)
def test_what_is_not_there_is_said_with_the_nearest_names(store: StateProvider) -> None:
    name = fill(store, {"a": 1})
    with pytest.raises(StateError, match=name):
        got(store, f"{name}x", "a")
    with pytest.raises(StateError, match="no namespace"):
        scanned(store, f"{name}x")
    with pytest.raises(StateError, match="no staged attempt 'f00'; staged: none"):
        scanned(store, name, attempt="f00")
    assert list(namespace_summaries(store, f"{name}x")) == []
    assert f"{name}x" not in list(store.namespaces())  # it was not created


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("apple", "apple"),
        ("7", 7),
        ('"7"', "7"),
        ("'7'", "7"),
        ("true", True),
        ("None", None),
        ("1.5", 1.5),
        ("NaN", "NaN"),
        ('["a", [1]]', ("a", (1,))),
        ("('a', b'x')", ("a", b"x")),
        (r"b'\x00'", b"\x00"),
        ("a b", "a b"),
        ("(((", "((("),
        ("[" * 5000, "[" * 5000),
        ("", ""),
    ],
)
def test_a_text_means_a_key(text: str, key: Any) -> None:
    found = key_from_text(text)
    assert (found, type(found)) == (key, type(key))


def test_json_and_later_schemas_are_decoded_as_written(memory_provider: MemoryStateProvider) -> None:
    json_codecs = Codecs(JsonCodec(), JsonCodec())
    assert scanned(memory_provider, fill(memory_provider, {"a": {"b": 1}}, json_codecs)) == {"a": {"b": 1}}
    later = put(memory_provider, [(encode("a"), tagged(encode([2]), 3))])
    [entry] = got(memory_provider, later, "a")
    assert entry.value is not None
    assert (entry.value.value, entry.value.version) == ([2], 3)


class Reversed(Serializer[str]):
    name = "reversed"

    def dumps(self, value: str) -> bytes:
        return value[::-1].encode()

    def loads(self, data: bytes) -> str:
        return data.decode()[::-1]


def test_a_users_serializer_is_used_where_the_configuration_names_it(memory_provider: MemoryStateProvider) -> None:
    codecs = Codecs(SerializerCodec(Reversed, "k", for_keys=True), SerializerCodec(Reversed, "v", for_keys=False))
    name = fill(memory_provider, {"key": "value"}, codecs)
    assert scanned(memory_provider, name, codecs) == {"key": "value"}
    with scan_entries(memory_provider, name, MSGPACK) as (notes, pages):
        [[entry]] = pages
    assert entry.key.data == b"yek"
    assert "reversed/1" in entry.key.problem
    assert len(notes) == 2
    with pytest.raises(StateError, match="--hex"):
        got(memory_provider, name, "key")
    [found] = got(memory_provider, name, b"yek".hex(), codecs=codecs, hexadecimal=True)
    assert found.value is not None
    assert found.value.value == "value"


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise AssertionError('it was unpickled')",)


def test_a_pickle_is_unpickled_only_where_the_configuration_chose_it(memory_provider: MemoryStateProvider) -> None:
    chosen = Codecs(MsgpackCodec(), PickleCodec())
    name = fill(memory_provider, {"a": _Bomb()}, chosen)
    with scan_entries(memory_provider, name, MSGPACK) as (notes, pages):
        [[entry]] = pages
    assert entry.key.value == "a"
    assert entry.value is not None
    assert entry.value.data.startswith(b"p")
    assert entry.value.problem
    assert "pickle" in notes[0]
    assert scanned(memory_provider, fill(memory_provider, {"a": {1, 2}}, chosen), chosen) == {"a": {1, 2}}


def test_what_is_damaged_is_shown_as_bytes_and_the_rest_decoded(memory_provider: MemoryStateProvider) -> None:
    name = put(memory_provider, [(encode("a"), b"\xc1"), (encode("b"), b"\xc1v\x00"), (b"\xc1", encode(1))])
    with scan_entries(memory_provider, name, MSGPACK) as (_, pages):
        [page] = pages
    assert [(bool(entry.key.problem), bool(entry.value and entry.value.problem)) for entry in page] == [
        (False, True),
        (False, True),
        (True, False),
    ]


def test_keys_that_cannot_be_are_refused(memory_provider: MemoryStateProvider) -> None:
    name = fill(memory_provider, {"a": 1})
    with pytest.raises(UnsupportedValue, match="mutable"):
        got(memory_provider, name, '{"a": 1}')
    with pytest.raises(ConfigError, match="not hexadecimal"):
        got(memory_provider, name, "xyz", hexadecimal=True)
