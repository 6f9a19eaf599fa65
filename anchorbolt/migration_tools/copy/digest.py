"""The count and checksum of a namespace's entries. They do not depend on the order of the entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

_BYTES = 16


@dataclass(frozen=True)
class Digest:
    """The digest of a set of entries."""

    entries: int = 0
    total: int = 0  # sum of the entries' 128-bit hashes modulo 2**128; with XOR, equal entries would cancel out
    size: int = 0  # bytes of all keys and values

    def plus(self, page: Iterable[tuple[bytes, bytes]]) -> Digest:
        """Return the digest with these entries added."""
        entries, total, size = self.entries, self.total, self.size
        for key, value in page:
            hashed = blake2b(len(key).to_bytes(8, "big"), digest_size=_BYTES)
            hashed.update(key)
            hashed.update(value)
            total += int.from_bytes(hashed.digest(), "big")
            entries += 1
            size += len(key) + len(value)
        return Digest(entries, total % (1 << 8 * _BYTES), size)

    @property
    def checksum(self) -> str:
        return f"{self.total:032x}"
