"""Reads the entries of a bolt's tasks on Storm, and converts them to the bytes and the tasks of Anchorbolt."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchorbolt.errors import MigrationRefused, SerializationError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.storm_state import (
    SAMPLE_ENTRIES,
    StormHashes,
    StormOptions,
    form_of,
    pages_of,
    part_decoder,
)
from anchorbolt.migration_tools.storm_tasks import Page, StormTask, entries_of
from anchorbolt.state_backends.contract import SizeLimits
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.storm.kryo import Tombstone
from anchorbolt.storm.plain_values import plain_value
from anchorbolt.streams.hashing import destinations_of, hashes_of
from anchorbolt.util.messages import shortened

_UNCHANGED = "Nothing was written"


class ConvertedEntry(NamedTuple):
    """An entry in the form of Anchorbolt."""

    namespace: str  # on Storm
    field: bytes  # as Storm stored its key
    task: int
    key: bytes
    value: bytes


class Fingerprint:
    """Two 64-bit hashes of each entry: of its key in Anchorbolt, and of its place and bytes in Storm."""

    def __init__(self) -> None:
        self._numbers = array("Q")

    def add(self, namespace: str, page: Page, keys: Iterable[bytes]) -> None:
        for (field, stored), key in zip(page, keys, strict=True):
            entry = f"{namespace}:{len(field)}:".encode() + field + stored
            self._numbers.frombytes(_hash(key) + _hash(entry))

    def rows(self) -> NDArray[np.uint64]:
        """Return the pairs, sorted by the bytes of the first hash, without those of entries that were read twice.

        Nothing can be added afterwards. Sorts in place, because there may be hundreds of millions.
        """
        np.frombuffer(self._numbers, "V16").sort()
        rows = np.frombuffer(self._numbers, np.uint64).reshape(-1, 2)
        is_new = np.ones(len(rows), dtype=bool)
        is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        return rows if is_new.all() else rows[is_new]


class StormBolt:
    """One bolt on Storm, and its new number of tasks."""

    def __init__(
        self,
        hashes: StormHashes,
        component: str,
        storm_tasks: Sequence[StormTask],
        tasks: int,
        options: StormOptions,
        *,
        rolls_forward: bool,
    ) -> None:
        """Find out how the entries are stored. Raises `MigrationRefused` if they do not show it."""
        self.component = component
        self.storm_tasks = tuple(task.namespace for task in storm_tasks)
        self.tasks = tasks
        self._hashes = hashes
        self._tasks = storm_tasks
        self._rolls_forward = rolls_forward
        names = (name for task in self.storm_tasks for name in (task, f"{task}$prepare"))
        stored = chain.from_iterable(page for name in names for page in pages_of(hashes, name))
        sample = list(islice(stored, SAMPLE_ENTRIES))
        if sample:
            form = form_of(sample, self.storm_tasks[0], options.generation)
            self._key = part_decoder(form, sample, options, is_key=True)
            self._value = part_decoder(form, sample, options, is_key=False)

    def entries(
        self, codecs: Codecs, limits: SizeLimits | None, fingerprint: Fingerprint, progress: Progress
    ) -> Iterator[list[ConvertedEntry]]:
        """Yield the converted entries in pages; an entry may come twice.

        Raises `MigrationRefused` with the key if an entry cannot be read, converted or encoded.
        """
        for task in self._tasks:
            progress.begin(f"reading {task.namespace}", task.entries + task.prepared_entries)
            encoding = EntryEncoding(task.namespace, codecs.keys, codecs.values, limits=limits)
            for page in entries_of(self._hashes, task, rolls_forward=self._rolls_forward):
                yield self._converted(task.namespace, page, encoding, fingerprint)
                progress.advance(len(page))

    def refuse_equal_keys(self, codecs: Codecs, rows: NDArray[np.uint64]) -> None:
        """Raise `MigrationRefused` if two entries have one key. `rows` are those of the bolt's fingerprint."""
        again = rows[1:, 0][rows[1:, 0] == rows[:-1, 0]]
        if not len(again):
            return
        suspects = set(again.tolist())
        found: dict[bytes, tuple[str, bytes]] = {}
        for page in self.entries(codecs, None, Fingerprint(), Progress()):
            for namespace, field, _, key, _ in page:
                if int.from_bytes(_hash(key), sys.byteorder) not in suspects:
                    continue
                place = found.setdefault(key, (namespace, field))
                if place != (namespace, field):
                    where = f"twice in {namespace}" if place[0] == namespace else f"in {place[0]} and in {namespace}"
                    raise MigrationRefused(
                        f"the key {shortened(codecs.keys.decode(key))} of {self.component!r} is {where}: the keys of "
                        "two entries on Storm would be one key here. Java has keys that are equal only in Python, such "
                        f"as 1 and 1L, or 0.0 and -0.0. {_UNCHANGED}. Remove one of them with a program of Storm's."
                    )

    def _converted(
        self, namespace: str, page: Page, encoding: EntryEncoding, fingerprint: Fingerprint
    ) -> list[ConvertedEntry]:
        kept, keys, values = [], [], []
        for entry in page:
            key, value = self._key(entry[0]), self._value(entry[1])
            if problem := key.problem or value.problem:
                shown = shortened(entry[0]) if key.problem else key.value
                raise MigrationRefused(
                    f"{namespace}: the entry with the key {shown} cannot be read: {problem}. {_UNCHANGED}."
                )
            if isinstance(value.value, Tombstone):
                continue
            try:
                keys.append(plain_value(key.value))
                values.append(plain_value(value.value))
            except SerializationError as error:
                raise MigrationRefused(
                    f"{namespace}: the entry with the key {key.value}: {error.message}. {_UNCHANGED}."
                ) from error
            kept.append(entry)
        if not kept:
            return []
        try:
            encoded_keys = encoding.key_bytes([encoding.cache_key(key) for key in keys])
            encoded = encoding.value_bytes(encoding.values_to_cache(keys, values))
            tasks = destinations_of(hashes_of(keys), self.tasks).tolist()
        except SerializationError as error:
            raise MigrationRefused(f"{error.message} {_UNCHANGED}.") from error
        fingerprint.add(namespace, kept, encoded_keys)
        fields = (field for field, _ in kept)
        return [
            ConvertedEntry(namespace, field, task, key, data)
            for field, task, key, data in zip(fields, tasks, encoded_keys, encoded, strict=True)
            if data is not None  # only `ABSENT` is encoded as None
        ]


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
