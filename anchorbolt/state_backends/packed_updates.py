"""The form in which every store keeps a slice of updates: msgpack of `[[key, value, key, …], [deleted key, …]]`.

It has no type "bin" of msgpack, because Redis's Lua reads it too and does not know that type.
"""

from collections.abc import Mapping
from itertools import chain
from zlib import crc32

import msgpack


def packed_updates(updates: Mapping[bytes, bytes | None]) -> bytes:
    """Pack updates; None deletes."""
    deletes: list[bytes] = []
    puts: list[bytes | None] = [None] * (2 * len(updates))
    puts[::2], puts[1::2] = updates, updates.values()
    if None in puts:
        deletes = [key for key, value in updates.items() if value is None]
        puts = [part for item in updates.items() if item[1] is not None for part in item]
    packed: bytes = msgpack.packb([puts, deletes], use_bin_type=False)
    return packed


def unpacked_updates(packed: bytes, checksum: int) -> dict[bytes, bytes | None]:
    """Return the updates that were packed to these bytes.

    The checksum says that the bytes are undamaged, not who wrote them, so the content is checked as well. Raises
    `ValueError` if `packed` has another CRC-32 than `checksum`, or is not what `packed_updates` makes.
    """
    if crc32(packed) != checksum:
        raise ValueError("bytes whose checksum is wrong")
    try:
        puts, deletes = msgpack.unpackb(packed, raw=True, strict_map_key=False)
        if type(puts) is type(deletes) is list and set(map(type, chain(puts, deletes))) <= {bytes}:
            updates: dict[bytes, bytes | None] = dict(zip(puts[::2], puts[1::2], strict=True))
            updates.update(dict.fromkeys(deletes))
            return updates
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ValueError(f"other content than updates: {error}") from error
    raise ValueError("other content than updates")
