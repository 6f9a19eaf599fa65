"""Count and checksum of a namespace's entries, in whatever order they come: equal for two stores that hold the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

_BYTES = 16


@dataclass(frozen=True)
class Digest:
    """What a set of entries comes to.

    Attributes:
        entries: How many.
        total: The sum of their 128-bit hashes, modulo 2 to the 128th. Not XOR, in which a pair would vanish.
        size: Bytes of their keys and values.
    """

    entries: int = 0
    total: int = 0
    size: int = 0

    def plus(self, page: Iterable[tuple[bytes, bytes]]) -> Digest:
        """Return the digest of these entries and more."""
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
        """The sum as hexadecimal digits."""
        return f"{self.total:032x}"
