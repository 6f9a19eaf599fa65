"""Everything that decodes bytes which Anchorbolt did not just make itself, and valid examples of them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from zlib import crc32

import msgpack

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.location import query_id_at
from anchorbolt.checkpoint.state import CheckpointState, Phase
from anchorbolt.engine.messages import (
    BarrierMessage,
    decode_message,
    encode_barrier,
    encode_batch,
    encode_report,
)
from anchorbolt.engine.spark import source_files
from anchorbolt.engine.wave import TaskReport
from anchorbolt.errors import BoltError, StateCorrupted
from anchorbolt.files import Folder
from anchorbolt.serialization import JsonCodec, MsgpackCodec, pack, unpack
from anchorbolt.serialization.storm_kryo import StormDecoder, detect
from anchorbolt.serialization.storm_wrapper import Generation, unwrap
from anchorbolt.state_backends import hbase_layout
from anchorbolt.state_backends.base import Fence, Seal, SizeLimits
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.redis_addresses import RedisServer
from anchorbolt.state_backends.redis_client import RedisClient
from anchorbolt.state_backends.redis_storage import RedisStateStorage
from anchorbolt.state_backends.schema import Schema, tagged
from anchorbolt.state_backends.serializers import PickleCodec, codec_named
from anchorbolt.state_backends.staged_items import unpacked_pairs
from anchorbolt.state_backends.transitions import AttemptRecord, Bookkeeping
from tests.support.serializers import Money
from tests.support.storm_fixtures import dump, forms

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """A decoder.

    Attributes:
        name: What it decodes.
        decode: Decodes bytes; may raise errors of our tree, and nothing else.
        examples: Valid encodings, to be damaged.
    """

    name: str
    decode: Callable[[bytes], Any]
    examples: Sequence[bytes]


_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**64,
    -(2**200),
    1.5,
    "text é",
    b"bytes\x00\xff",
    [1, [2, [3, []]]],
    {"a": 1, 2: "b", (1, "c"): None},
    (1, ("two", (3.0,))),
    {1, "a", (2, 3)},
    frozenset({b"x"}),
    dt.datetime(2026, 11, 21, 12, 30, 1, 5, dt.timezone.utc),
    dt.date(2026, 2, 28),
    dt.time(23, 59, 59),
    dt.timedelta(days=-3, microseconds=7),
    decimal.Decimal("-12345.678E+30"),
    uuid.UUID(int=7),
    complex(1, -2),
    list(range(300)),
    {str(number): [number, str(number)] for number in range(40)},
)
_JSON: tuple[Any, ...] = (
    None,
    1,
    -2.5e300,
    "text é",
    [1, ["a", {"b": None}]],
    {"a": {"b": [True, False]}},
)
_FILE = SinkFile(
    "out", 1, "file:/checkpoint/anchorbolt/outbox/1-3/out-1.parquet", 12, "word string, count int64"
)
_RECORD = DecisionRecord(
    topology="word-count",
    state=CheckpointState(7, Phase.COMMITTING),
    query_id=str(uuid.UUID(int=1)),
    batch_id=7,
    offsets_digest="ab" * 32,
    winners={"word-count:count-0": Winner("a" * 32, 6, Seal(2, 77))},
    namespaces={"word-count:count-0": Committed(7, "a" * 32), "word-count:count-1": Committed(5, "b" * 32)},
    outbox=(_FILE,),
    parallelism={"count": 2},
    schemas={"out": "word string, count int64"},
)
_REPORT = TaskReport(
    "count", 0, "a" * 32, 9, {("split", 1): "b" * 32}, 10, 20, 300, 4, 5, 0.5, 1.5, 0, 6, Seal(1, 5), _FILE
)
_FAILURE = TaskReport(
    "count",
    1,
    "c" * 32,
    9,
    failure=BoltError(
        "it raised", component="count", task_index=1, tuple_text="…", user_traceback="Traceback …"
    ),
)
_MSGPACK, _AS_JSON = MsgpackCodec(), JsonCodec()
_ENCODING = EntryEncoding("word-count:count-0", _MSGPACK, _MSGPACK)
_JSON_ENCODING = EntryEncoding("word-count:count-0", _AS_JSON, _AS_JSON)
_PICKLE = PickleCodec()
_MONEY = codec_named("tests.support.serializers.MoneySerializer", "valueSerializerClass", for_keys=False)
_THIRD_SCHEMA = Schema(3, lambda key, value, version: [version, value])


def _value(encoding: EntryEncoding) -> Callable[[bytes], Any]:
    return lambda data: encoding.value_from("key", encoding.held_from("key", data))


def _entry(encoding: EntryEncoding) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        key = encoding.key_from(data)
        return encoding.value_from(key, encoding.held_from(key, data))

    return decode


_NAMESPACE = "word-count:count-0"
_ITEMS = [(b"key %d" % number, None if number % 3 == 0 else b"v" * number) for number in range(20)]
_ATTEMPT = AttemptRecord(7, 6, Fence(3, 2), 2, 77, 5, True)
_BOOKS = hbase_layout.Books(
    Bookkeeping(Fence(3, 2), 6, "a" * 32, "msgpack/1", "b" * 32),
    {"b" * 32: hbase_layout.Staged(_ATTEMPT, "01234567", 4)},
    version=5,
    epoch=1_700_000_000_000,
    applied=1,
    written={b"__state": b"x" * 20},
)


def _moved(data: bytes) -> bytes:
    """Decode HBase's bookkeeping, and write it again as every step does: what was believed must be writable."""
    books = hbase_layout.unpacked_books(_NAMESPACE, data)
    assert books.epoch + (books.version + 1) * hbase_layout.VERSION_STEP < 2**63, "no timestamp"
    return hbase_layout.packed_books(books)


def _slice_of_hbase(packed: bytes) -> Any:
    """Decode a slice whose checksum is right: bytes that somebody else has written, not only damaged."""
    whole = len(packed).to_bytes(8, "big") + crc32(packed).to_bytes(4, "big") + packed
    pages = iter([[(b"row$00000000.0000", whole)]])
    return _checked(item for items in hbase_layout.read_slices(_NAMESPACE, pages, 0, 1) for item in items)


def _slice_of_sqlite(packed: bytes) -> Any:
    try:
        return _checked(unpacked_pairs(packed))
    except ValueError as error:  # what the storage makes of it, with the name of its file
        raise StateCorrupted(str(error), namespace=_NAMESPACE) from error


def _checked(items: Iterable[Any]) -> list[tuple[bytes, bytes | None]]:
    """Demand what a commit puts into the store: pairs of bytes."""
    found = list(items)
    assert all(isinstance(key, bytes) and isinstance(value, bytes | None) for key, value in found)
    return found


def _redis() -> RedisStateStorage:
    server = RedisServer(None, None, 1000, None, "localhost", 6379, 0)
    return RedisStateStorage(_NAMESPACE, _NAMESPACE, RedisClient(server), SizeLimits(1, 1, ""))


_REDIS = _redis()


def _books_of_redis(data: bytes) -> Any:
    *parts, committed = (data.split(b"|") + [b""] * 6)[:6]
    return _REDIS._books([b"ok", parts, committed])


class _Metadata:
    """As much of a checkpoint location as is read here."""

    location = "/checkpoint"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, name: str) -> bytes:
        return self._data


def _query_id(data: bytes) -> str:
    return query_id_at(cast(Folder, _Metadata(data)))


def _storm(generation: Generation) -> Callable[[bytes], Any]:
    decoder = StormDecoder(generation, enums={"anchorfix.Colour": ["RED"]})

    def decode(data: bytes) -> Any:
        decoded = decoder.decode_key(data)
        return decoded.to_json(), decoded.describe()

    return decode


def _values_of(name: str) -> list[bytes]:
    return [
        value
        for namespace, fields in dump(name).binary().items()
        if not namespace.startswith(("enum", "pojo", "registered"))
        for value in fields.values()
    ]


def _forms_of(kryo: str) -> list[bytes]:
    return [
        form.data
        for form in forms(kryo)
        if '"t": "object"' not in json.dumps(form.form)
        and "KryoForms$" not in str(form.form)
        and len(form.data) < 300
    ]


TARGETS = (
    Target(
        "HBase's bookkeeping",
        _moved,
        [hbase_layout.packed_books(_BOOKS), hbase_layout.packed_books(hbase_layout.Books())],
    ),
    Target("HBase's cells", lambda data: hbase_layout.value_of(_NAMESPACE, data), [b"+value", b"-"]),
    Target(
        "slices staged in HBase",
        _slice_of_hbase,
        [msgpack.packb([part for item in _ITEMS for part in item]), msgpack.packb([])],
    ),
    Target(
        "slices staged in SQLite",
        _slice_of_sqlite,
        [msgpack.packb(_ITEMS), msgpack.packb([])],
    ),
    Target("Redis's bookkeeping", _books_of_redis, [b"3|2|" + b"a" * 32 + b"|msgpack/1||7", b"|||||-1"]),
    Target("metadata of Spark's query", _query_id, [b'{"id":"9f2c6f0e-7a9c-4f43-a5f0-0f4bb0b4c3a1"}']),
    Target(
        "offsets of Spark's batch",
        source_files._log_offsets,
        [b'v1\n{"batchWatermarkMs":0}\n{"logOffset":4}\n-\n'],
    ),
    Target(
        "attempts staged in Redis",
        lambda data: _REDIS._record(data),
        [b"7 6 3 2 2 77 5 1 4", b"-1 -1 0 0 0 0 0 0 0"],
    ),
    Target("values as msgpack", unpack, [pack(value) for value in _VALUES]),
    Target("values as JSON", _AS_JSON.decode, [_AS_JSON.encode(value) for value in _JSON]),
    Target("entries of a state", _entry(_ENCODING), [pack(value) for value in _VALUES]),
    Target("entries of a state as JSON", _entry(_JSON_ENCODING), [_AS_JSON.encode(value) for value in _JSON]),
    Target(
        "values of several schema versions",
        _value(EntryEncoding("word-count:count-0", _MSGPACK, _MSGPACK, _THIRD_SCHEMA)),
        [tagged(pack(value), 1 + number % 3) for number, value in enumerate(_VALUES)],
    ),
    Target(
        "values as pickle",
        _value(EntryEncoding("word-count:count-0", _MSGPACK, _PICKLE)),
        [_PICKLE.encode(value) for value in _VALUES],
    ),
    Target(
        "values of a user's serializer",
        _value(EntryEncoding("word-count:count-0", _MSGPACK, _MONEY)),
        [_MONEY.encode(Money(12)), _MONEY.encode(Money(-3, "USD"))],
    ),
    Target(
        "decision records",
        lambda data: DecisionRecord.decode(data, "a fuzzed store"),
        [
            _RECORD.encode(),
            DecisionRecord().encode(),
            replace(_RECORD, state_schemas={"count": 3}).committed().encode(),
        ],
    ),
    Target(
        "messages between tasks",
        decode_message,
        [
            encode_batch(("split", 0), 3, "a" * 32, 0, "default", [("a", 1, None), ("b", 2, 1.5)]),
            encode_barrier(BarrierMessage(("split", 0), "a" * 32, 7, 3)),
            encode_report(_REPORT),
            encode_report(_FAILURE),
        ],
    ),
    Target("what Storm 1 serialised", _storm(Generation.STORM_1_0), _values_of("storm-1.0.3")),
    Target("what Storm 2.0 serialised", _storm(Generation.STORM_2_0), _forms_of("4.0.2")),
    Target("what Storm 2.6 serialised", _storm(Generation.STORM_2_6), _forms_of("5.6.2")),
    Target(
        "values of Storm in their wrappers",
        lambda data: (unwrap(data), StormDecoder(Generation.STORM_1_2).decode_value(data)),
        _values_of("storm-1.2.4"),
    ),
    Target(
        "which Storm wrote a hash",
        lambda data: detect([(data, data)]),
        [value for name in ("storm-1.0.3", "storm-2.6.4") for value in _values_of(name)],
    ),
)
