"""The metadata cell of HBase: damaged bytes and other formats are refused."""

import msgpack
import pytest

from anchorbolt.errors import StateCorrupted
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.hbase.layout import HBaseMetadata, Staged, packed_metadata, unpacked_metadata
from anchorbolt.state_backends.rules import AttemptRecord

METADATA = HBaseMetadata(
    *(Fence(3, 2), 6, "a" * 32, "msgpack/1", "b" * 32),
    {"b" * 32: Staged(AttemptRecord(7, 6, Fence(3, 2), 2, 77, 5, True), "01234567", 4)},
    version=5,
    epoch=1_700_000_000_000,
    applied=1,
    written={b"key": b"value"},
)


def test_metadata_is_read_as_it_was_written() -> None:
    assert unpacked_metadata("ns", packed_metadata(METADATA)) == METADATA


def test_any_damaged_byte_of_the_metadata_is_reported() -> None:
    cell = packed_metadata(METADATA)
    for place in range(len(cell)):
        damaged = cell[:place] + bytes([cell[place] ^ 1]) + cell[place + 1 :]
        with pytest.raises(StateCorrupted):
            unpacked_metadata("ns", damaged)
        with pytest.raises(StateCorrupted):
            unpacked_metadata("ns", cell[:place])


def test_metadata_of_another_format_is_refused_by_name() -> None:
    with pytest.raises(StateCorrupted, match="has format 2, and this version of Anchorbolt knows 3"):
        unpacked_metadata("ns", msgpack.packb([2, b"nonce", 3, 2, 6, "a" * 32, "codec", "", [], 5, 1, 0, {b"k": b"v"}]))
