"""Puts or deletes single entries of a stopped topology's state, in one more transaction of the topology."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.errors import MigrationRefused, SerializationError
from anchorbolt.maintenance.namespace_changes import NamespaceChanges
from anchorbolt.maintenance.rescaling import GROUPED_BY_KEY
from anchorbolt.migration_tools.entries import Codecs, Entry, EntryDecoder, stored_codecs
from anchorbolt.migration_tools.stopped_topology import begun, check_has_entries, read_stopped
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot
from anchorbolt.serialization.codecs import FIRST_VERSION, Schema
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.timed.expiry import Due, Live, indexed_at, joined, keeps_item, live_entry, split
from anchorbolt.state_backends.timed.index import IndexClock
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.util.messages import shortened


@dataclass(frozen=True)
class Repaired:
    """One key that was put or deleted.

    Attributes:
        namespace: The namespace of the task that has the key.
        before: The entry before the change, without a value if it was absent.
    """

    namespace: str
    before: Entry


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair, or of a dry run.

    Attributes:
        store: Description of the store.
        entries: The keys, in the order in which they were given.
        expires_at: When the entry that was put expires, in ms since 1970; None if it stays, or for a delete.
        txid: The transaction that made the change, or would make it; None if nothing is to be changed.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    store: str
    entries: tuple[Repaired, ...]
    expires_at: int | None
    txid: int | None
    is_dry_run: bool


def put_entry(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    key: Any,
    value: Any,
    codecs: Codecs,
    *,
    now: int,
    ttl_ms: int | None = None,
    task: int | None = None,
    take_fence: bool = False,
    dry_run: bool = False,
) -> RepairReport:
    """Put a value under a key of the stateful bolt `component`, whether the key is there or not.

    The value is stored with the bolt's current schema version. The key's timers do not change.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        component: Id of the bolt.
        key: The key.
        value: The new value.
        codecs: The configured codecs.
        now: The time, in ms since 1970. If the clock of the last wave is later, that one counts.
        ttl_ms: How long the entry lives from now; None for an entry that stays, even if it had a TTL before.
        task: Index of the task that has the key, or is to have it. None: the task of the key's hash, if the bolt is
            grouped by fields and no other task has the key.
        take_fence: Continue even if a run holds the fence: a run that is alive ends with `Fenced` at its next wave, and
            a killed run no longer blocks the command.
        dry_run: Make all checks, and write nothing.

    Raises:
        MigrationRefused: A run is alive, a transaction is open or a batch may be half committed; the bolt has no state,
            or a custom one; or the key's task is not known. Nothing was changed.
        UnsupportedValue: The key or the value cannot be encoded, or is too large. Nothing was changed.
        Fenced: A run has started meanwhile.
        StateError: The codecs are not known, or the store failed; see `StateStorage`.
    """
    repair = _Repair(provider, topology, prefix, component, codecs, now=now, take_fence=take_fence, dry_run=dry_run)
    [found] = repair.found([key], task)
    data = found.encoding.value_bytes([found.encoding.value_to_cache(key, value)])[0]
    assert data is not None, "it is the encoding of a value"
    at = None if ttl_ms is None else repair.now + ttl_ms
    report = RepairReport(provider.describe(), (found.repaired,), at, repair.record.txid + 1, dry_run)
    if not dry_run:
        repair.put(found, data, at)
    return report


def delete_entries(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    keys: Sequence[Any],
    codecs: Codecs,
    *,
    now: int,
    task: int | None = None,
    take_fence: bool = False,
    dry_run: bool = False,
) -> RepairReport:
    """Delete some keys of the stateful bolt `component`, in one transaction. Absent keys are left as they are.

    The keys' timers stay. Arguments and errors are those of `put_entry`.
    """
    repair = _Repair(provider, topology, prefix, component, codecs, now=now, take_fence=take_fence, dry_run=dry_run)
    found = repair.found(keys, task)
    there = [each for each in found if each.repaired.before.value is not None]
    txid = repair.record.txid + 1 if there else None
    report = RepairReport(provider.describe(), tuple(each.repaired for each in found), None, txid, dry_run)
    if there and not dry_run:
        repair.delete(there)
    return report


@dataclass(frozen=True)
class _Found:
    """A key, in the task that has it or is to have it."""

    task: int
    key: bytes
    stored: bytes | None
    encoding: EntryEncoding
    repaired: Repaired


class _Repair:
    """A change of single entries of one bolt."""

    def __init__(
        self,
        provider: StateProvider,
        topology: str,
        prefix: str,
        component: str,
        codecs: Codecs,
        *,
        now: int,
        take_fence: bool,
        dry_run: bool,
    ) -> None:
        self._snapshot: TopologySnapshot
        self.record: DecisionRecord
        self._snapshot, self.record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)
        check_has_entries(provider, self.record, self._snapshot, component)
        self._provider = provider
        self._component = component
        self._codecs = codecs
        self.now = max(now, self.record.clock)
        count = self.record.parallelism[component]
        self._names = [task_namespace(prefix, component, index) for index in range(count)]
        heads = [self._snapshot.heads[name].codec for name in self._names if name in self._snapshot.heads]
        self._header = next(filter(None, heads))  # of a task that has no entries yet, too

    def found(self, keys: Sequence[Any], task: int | None) -> list[_Found]:
        """Return each key in its task. Raises the errors of `put_entry`."""
        if task is not None and not 0 <= task < len(self._names):
            raise MigrationRefused(
                f"{self._component!r} has no task {task}: it has the tasks 0 to {len(self._names) - 1}. Nothing was "
                "changed."
            )
        asked = range(len(self._names)) if task is None else [task]
        in_task = {index: self._looked_up(index, keys) for index in asked}
        if task is not None:
            return in_task[task]
        return [self._placed(key, [in_task[index][place] for index in asked]) for place, key in enumerate(keys)]

    def put(self, found: _Found, data: bytes, at: int | None) -> None:
        """Put encoded values; `at` is when they expire."""
        name, header = self._names[found.task], self._header_of(found.task)
        with begun(self._provider, self._snapshot, self.record, [name], command="put") as transaction:
            changes = NamespaceChanges(transaction.storages[name], transaction.writer(name, header))
            record = self.record
            if at is not None:
                indexed = self._index(changes, found, at)
                data = joined((at, indexed), data)
                record = self._with_due(indexed)
            changes.put([(found.key, data)])
            transaction.finish(record, {name: changes.sealed()}, (found.repaired.before.key.shown,))

    def delete(self, found: Sequence[_Found]) -> None:
        """Delete keys that are there."""
        by_task: defaultdict[int, set[bytes]] = defaultdict(set)
        for each in found:
            by_task[each.task].add(each.key)
        with begun(self._provider, self._snapshot, self.record, command="delete") as transaction:
            winners = {}
            for task, keys in by_task.items():
                name = self._names[task]
                changes = NamespaceChanges(transaction.storages[name], transaction.writer(name, self._header_of(task)))
                changes.delete(keys)
                winners[name] = changes.sealed()
            shown = tuple(each.repaired.before.key.shown for each in found)
            transaction.finish(self.record, winners, shown)

    def _index(self, changes: NamespaceChanges, found: _Found, at: int) -> int:
        """Index an entry's due time; return the time in the index."""
        latest = indexed_at(at, self.now)
        due = _due_of(found.stored)
        if due is not None and keeps_item(due, at, latest, self.now):
            return due[1]
        changes.index(IndexClock.EXPIRY, [(latest, found.key)], self.now)
        return latest

    def _with_due(self, indexed: int) -> DecisionRecord:
        times = self.record.times.get(self._component, BoltTimes())
        first = indexed if times.due.expiry is None else min(indexed, times.due.expiry)
        changed = replace(times, due=times.due._replace(expiry=first))
        return replace(self.record, times={**self.record.times, self._component: changed})

    def _header_of(self, task: int) -> str:
        head = self._snapshot.heads.get(self._names[task])
        return self._header if head is None else head.codec or self._header

    def _looked_up(self, task: int, keys: Sequence[Any]) -> list[_Found]:
        name, header = self._names[task], self._header_of(task)
        codecs = stored_codecs(name, header, self._codecs)
        decoder = EntryDecoder(name, header, self._codecs)
        version = self.record.state_schemas.get(self._component, FIRST_VERSION)
        with closing(self._provider.open(name)) as storage:
            encoding = EntryEncoding(name, codecs.keys, codecs.values, Schema(version), storage.limits)
            data = encoding.key_bytes([encoding.cache_key(key) for key in keys])
            stored = storage.get_many(data)
        before = [decoder.entry(key, _live(key, value, self.now)) for key, value in zip(data, stored, strict=True)]
        return [
            _Found(task, key, value, encoding, Repaired(name, entry))
            for key, value, entry in zip(data, stored, before, strict=True)
        ]

    def _placed(self, key: Any, in_tasks: Sequence[_Found]) -> _Found:
        """Return the key in the task that has it; in the task of its hash if none has it."""
        hashed = destination_of(stable_hash(key), len(in_tasks)) if len(in_tasks) > 1 else 0
        having = [each.task for each in in_tasks if each.repaired.before.value is not None]
        if having and having != [hashed]:
            raise MigrationRefused(
                f"{self._component!r} has {shortened(key)} in task {', '.join(map(str, having))}, and the key's hash "
                f"gives task {hashed}. Nothing was changed. Name the task: --task {having[0]}."
            )
        if not having and len(in_tasks) > 1 and (why := self._no_hash(key)):
            raise MigrationRefused(
                f"no task of {self._component!r} has {shortened(key)}, and {why}: its task is not known. Nothing was "
                "changed. Name the task: --task N."
            )
        return in_tasks[hashed]

    def _no_hash(self, key: Any) -> str:
        """Return why a key's hash does not give its task; an empty text if it does."""
        for source, stream, grouping in self.record.groupings.get(self._component, ()):
            if not grouping.startswith(GROUPED_BY_KEY):
                return f"the bolt gets the stream {stream!r} of {source!r} by {grouping}, not by a fields grouping"
        if type(key) is tuple and self.record.times.get(self._component, BoltTimes()).has_more_than_ttls:
            return "the bolt has timers or event time: if it has windows, their keys begin with the grouping value"
        return ""


def _live(key: bytes, stored: bytes | None, now: int) -> Live | None:
    """Return an entry as it is at `now`. A damaged header is shown as a part of the value: it can be repaired."""
    try:
        return live_entry(key, stored, now)
    except SerializationError:
        return Live(key, stored or b"")


def _due_of(stored: bytes | None) -> Due | None:
    try:
        return None if stored is None else split(stored)[0]
    except SerializationError:
        return None
