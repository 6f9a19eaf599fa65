"""Writes one attempt of one namespace in slices of some MiB."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.errors import MigrationRefused
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.contract import Fence, Seal, SizeLimits, StagedSlice, StateStorage

_SLICE_BYTES = 4 << 20


@dataclass(frozen=True)
class CountedWinner(Winner):
    """The attempt that a namespace must commit, and how many entries it puts and deletes."""

    put: int
    deleted: int


Page = list[tuple[bytes, bytes]]


class AttemptWriter:
    """Writes one attempt of one namespace, slice by slice; a new attempt unless its id is given."""

    def __init__(
        self, storage: StateStorage, fence: Fence, txid: int, base: int, codec: str, attempt: str | None = None
    ) -> None:
        self._storage = storage
        self._fence = fence
        self._txid = txid
        self.attempt = uuid.uuid4().hex if attempt is None else attempt
        self._base = base
        self._codec = codec
        self._seal = Seal(0, 0)
        self._put = self._deleted = 0
        self.stage({})  # a namespace without entries is staged too

    def stage(self, updates: Mapping[bytes, bytes | None]) -> None:
        number = self._seal.slices
        staged = StagedSlice(self._fence, self._txid, self.attempt, self._base, number, updates, self._codec)
        self._seal = self._storage.stage(staged)
        of_entries = [value for key, value in updates.items() if not key.startswith(INDEX_TAG)]
        deleted = of_entries.count(None)
        self._put += len(of_entries) - deleted
        self._deleted += deleted

    def sealed(self) -> CountedWinner:
        """Seal the attempt."""
        self._storage.seal(self._fence, self.attempt, self._seal)
        return CountedWinner(self.attempt, self._base, self._seal, self._put, self._deleted)


def slices_of(namespace: str, pages: Iterable[Page], limits: SizeLimits | None) -> Iterator[Page]:
    """Yield entries in parts of some MiB. Raises `MigrationRefused` if one is too large for `limits`."""
    for page in pages:
        entries: Page = []
        size = 0
        for key, value in page:
            if limits is not None and (len(key) > limits.key or len(value) > limits.value):
                raise MigrationRefused(
                    f"{namespace}: an entry has a key of {len(key):,} and a value of {len(value):,} bytes; the "
                    f"target takes {limits.key:,} and {limits.value:,}. {limits.advice}. Nothing is committed there."
                )
            if entries and size + len(key) + len(value) > _SLICE_BYTES:
                yield entries
                entries, size = [], 0
            entries.append((key, value))
            size += len(key) + len(value)
        if entries:
            yield entries
