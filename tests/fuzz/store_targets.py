"""What is decoded of the bytes that a store or a checkpoint location keeps for itself."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast
from zlib import crc32

from anchorbolt.checkpoint.decision_log import query_id_at
from anchorbolt.engine.spark.sources import files as source_files
from anchorbolt.errors import StateCorrupted
from anchorbolt.files import Folder
from anchorbolt.state_backends.contract import Fence, SizeLimits, packed_updates, unpacked_updates
from anchorbolt.state_backends.hbase import layout as hbase_layout
from anchorbolt.state_backends.redis.addresses import RedisServer
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.storage import RedisStateStorage
from anchorbolt.state_backends.rules import AttemptRecord
from tests.fuzz import Target

_NAMESPACE = "word-count:count-0"
_UPDATES = {b"key %d" % number: None if number % 3 == 0 else b"v" * number for number in range(20)}
_ATTEMPT = AttemptRecord(7, 6, Fence(3, 2), 2, 77, 5, True)
_METADATA = hbase_layout.HBaseMetadata(
    *(Fence(3, 2), 6, "a" * 32, "msgpack/1", "b" * 32),
    {"b" * 32: hbase_layout.Staged(_ATTEMPT, "01234567", 4)},
    version=5,
    epoch=1_700_000_000_000,
    applied=1,
    written={b"__state": b"x" * 20},
)


def _moved(data: bytes) -> bytes:
    """Decode HBase's metadata, and write it again as every step does: what was believed must be writable."""
    metadata = hbase_layout.unpacked_metadata(_NAMESPACE, data)
    assert metadata.epoch + (metadata.version + 1) * hbase_layout.VERSION_STEP < 2**63, "no timestamp"
    return hbase_layout.packed_metadata(metadata)


def _slice_of_hbase(packed: bytes) -> Any:
    """Decode a slice whose checksum is right: bytes that somebody else has written, not only damaged."""
    whole = len(packed).to_bytes(8, "big") + crc32(packed).to_bytes(4, "big") + packed
    pages = iter([[(b"row$00000000.0000", whole)]])
    return _checked(item for updates in hbase_layout.read_slices(_NAMESPACE, pages, 0, 1) for item in updates.items())


def _slice_of_sqlite(packed: bytes) -> Any:
    try:
        return _checked(unpacked_updates(packed, crc32(packed)).items())
    except ValueError as error:  # what the storage makes of it, with the name of its file
        raise StateCorrupted(str(error), namespace=_NAMESPACE) from error


def _checked(items: Iterable[Any]) -> list[tuple[bytes, bytes | None]]:
    """Demand what a commit puts into the store: pairs of bytes."""
    found = list(items)
    assert all(isinstance(key, bytes) and isinstance(value, bytes | None) for key, value in found)
    return found


_REDIS_SERVER = RedisServer(timeout_ms=1000)
_REDIS = RedisStateStorage(_NAMESPACE, RedisClient(_REDIS_SERVER), SizeLimits(1, 1, ""))


def _metadata_of_redis(data: bytes) -> Any:
    *parts, committed = (data.split(b"|") + [b""] * 7)[:7]
    return _REDIS._metadata([b"ok", [*parts, 5 if parts[5] else 0], committed])


def _query_id(data: bytes) -> str:
    return query_id_at(cast(Folder, SimpleNamespace(location="/checkpoint", read=lambda name: data)))


STORE_TARGETS = (
    Target(
        "HBase's metadata",
        _moved,
        [hbase_layout.packed_metadata(_METADATA), hbase_layout.packed_metadata(hbase_layout.HBaseMetadata())],
    ),
    Target("HBase's cells", lambda data: hbase_layout.value_of(_NAMESPACE, data), [b"+value", b"-"]),
    Target("slices staged in HBase", _slice_of_hbase, [packed_updates(_UPDATES), packed_updates({})]),
    Target("slices staged in SQLite", _slice_of_sqlite, [packed_updates(_UPDATES), packed_updates({})]),
    Target("Redis's metadata", _metadata_of_redis, [b"3|2|" + b"a" * 32 + b"|msgpack/1||5|7", b"||||||-1"]),
    Target("metadata of Spark's query", _query_id, [b'{"id":"9f2c6f0e-7a9c-4f43-a5f0-0f4bb0b4c3a1"}']),
    Target(
        "offsets of Spark's batch", source_files._log_offsets, [b'v1\n{"batchWatermarkMs":0}\n{"logOffset":4}\n-\n']
    ),
    Target(
        "attempts staged in Redis", lambda data: _REDIS._record(data), [b"v2 7 6 3 2 2 77 5 1", b"v2 -1 -1 0 0 0 0 0 0"]
    ),
)
