"""Compares the entries of a topology's stateful bolts in two stores. Reads only, in pages; no fence is raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.errors import SerializationError, StateCorrupted, StateError
from anchorbolt.migration_tools.entries import Codecs, Entry, EntryDecoder
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import START_OVER, StateProvider, StateStorage
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.timed.expiry import live, live_entry
from anchorbolt.util.messages import did_you_mean


@dataclass(frozen=True)
class Side:
    """A topology in one store."""

    provider: StateProvider
    topology: str
    prefix: str
    codecs: Codecs


@dataclass(frozen=True)
class Difference:
    """A key that only one side has, or that has different values or due times.

    Attributes:
        component: Id of the bolt.
        here: The entry on the first side; None if only the other has the key.
        there: The entry on the other side; None if only the first has the key.
    """

    component: str
    here: Entry | None
    there: Entry | None


def differences(here: Side, there: Side, components: Sequence[str] = (), *, now: int) -> Iterator[Difference]:
    """Yield the keys in which two states differ, in any order; of all stateful bolts unless some are named.

    Entries that have expired at `now` (ms since 1970) count as absent. Timers are not compared. A bolt may have another
    number of tasks, and other codecs, on the other side.

    Raises:
        StateError: A side has no state of the topology, or neither has a named bolt; a state is a custom one; a key
            cannot be decoded that the other side stores in another format; or a run has changed a side meanwhile.
    """
    before = [_read(side) for side in (here, there)]
    names = sorted({name for _, record in before for name in record.parallelism if not name.startswith("__")})
    for component in components:
        if component not in names:
            raise StateError(
                f"neither store has a stateful bolt {component!r} of topology {here.topology!r}; they have "
                f"{', '.join(names) or 'none'}.{did_you_mean(component, names)}"
            )
    for component in components or names:
        with ExitStack() as stack:
            one, other = (
                _Tasks(side, *state, component, stack) for side, state in zip((here, there), before, strict=True)
            )
            for found, match in one.matched(other, now):
                if match is None or not _is_same(found, match):
                    yield Difference(component, found, match)
            for found, match in other.matched(one, now):
                if match is None:
                    yield Difference(component, None, found)
    for side, (_, record) in zip((here, there), before, strict=True):
        if _read(side)[1].namespaces != record.namespaces:
            raise StateError(
                f"a run has changed {side.topology!r} in {side.provider.describe()} while it was compared. Stop it, "
                "and compare again."
            )


def _read(side: Side) -> tuple[TopologySnapshot, DecisionRecord]:
    snapshot = read_topology(side.provider, side.topology, side.prefix)
    if snapshot.stored is None:
        raise StateError(
            f"{side.provider.describe()} has no decision record of topology {side.topology!r} "
            f"({snapshot.record_namespace}). Check the name, the prefix and the configuration; "
            "anchorbolt state ls lists the topologies.",
            namespace=snapshot.record_namespace,
        )
    return snapshot, snapshot.stored


class _Tasks:
    """The tasks of a bolt on one side; none if it has no such bolt."""

    def __init__(
        self, side: Side, snapshot: TopologySnapshot, record: DecisionRecord, component: str, stack: ExitStack
    ) -> None:
        self.count = record.parallelism.get(component, 0)
        self._tasks: list[tuple[StateStorage, EntryDecoder, str]] = []
        for index in range(self.count):
            name = task_namespace(side.prefix, component, index)
            head = snapshot.heads.get(name)
            header = "" if head is None else head.codec
            if header == CUSTOM_HEADER:
                raise StateError(
                    f"{name} belongs to a custom state and has no entries. Name the other bolts to compare.",
                    namespace=name,
                )
            storage = stack.enter_context(closing(side.provider.open(name)))
            self._tasks.append((storage, EntryDecoder(name, header, side.codecs), header))

    def matched(self, other: _Tasks, now: int) -> Iterator[tuple[Entry, Entry | None]]:
        """Yield each entry, with the entry of the same key on the other side."""
        for index, (storage, decoder, header) in enumerate(self._tasks):
            for page in storage.scan():
                try:
                    entries = [decoder.entry(each.key, each) for each in live(page, now)]
                except SerializationError as error:
                    raise _damaged(storage, error) from error
                yield from zip(entries, other._looked_up(index, self.count, entries, header, now), strict=True)

    def _looked_up(self, index: int, count: int, entries: Sequence[Entry], header: str, now: int) -> list[Entry | None]:
        """Return the entries of these keys: of the same task, or of any if the numbers of tasks differ."""
        found: list[Entry | None] = [None] * len(entries)
        for storage, decoder, own in self._tasks[index : index + 1] if count == self.count else self._tasks:
            places = [place for place, each in enumerate(found) if each is None]
            if not own or not places:
                continue  # nothing has been written there, or nothing is left to find
            keys = [_key_bytes(storage, decoder, entries[place], is_same=own == header) for place in places]
            for place, key, stored in zip(places, keys, storage.get_many(keys), strict=True):
                try:
                    entry = live_entry(key, stored, now)
                except SerializationError as error:
                    raise _damaged(storage, error) from error
                found[place] = None if entry is None else decoder.entry(key, entry)
        return found


def _key_bytes(storage: StateStorage, decoder: EntryDecoder, entry: Entry, *, is_same: bool) -> bytes:
    if is_same:
        return entry.key.data
    if entry.key.problem:
        raise StateError(
            f"the key {entry.key.data.hex()} cannot be looked up in {storage.namespace}, which has another format: "
            f"{entry.key.problem}.",
            namespace=storage.namespace,
        )
    return decoder.key_bytes(entry.key.value)


def _is_same(one: Entry, other: Entry) -> bool:
    assert one.value is not None, "a stored entry has a value"
    assert other.value is not None, "a stored entry has a value"
    if one.expires_at != other.expires_at or one.value.version != other.value.version:
        return False
    if one.value.data == other.value.data:
        return True
    known = not one.value.problem and not other.value.problem
    return known and _equal(one.value.value, other.value.value)


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal, and of one type: 1 is not True."""
    return type(one) is type(other) and bool(one == other)


def _damaged(storage: StateStorage, error: SerializationError) -> StateCorrupted:
    return StateCorrupted(f"state {storage.namespace!r}: {error}. {START_OVER}.", namespace=storage.namespace)
