"""Gives the entries that a stateful bolt already has a TTL, in one more transaction of the topology.

A stored value gets a header with its due time, and the index by time gets its key, as if a task had put the entry: see
`maintenance` and `state_backends.timed`. So a later run finds the entries when they are due, and deletes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from anchorbolt.checkpoint.decision import DecisionRecord, Winner
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.errors import MigrationRefused, SerializationError, StateCorrupted
from anchorbolt.maintenance.attempt_writer import Page
from anchorbolt.maintenance.namespace_changes import NamespaceChanges
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.stopped_topology import begun, check_has_entries, namespaces_of, read_stopped
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.contract import START_OVER, StateProvider, StateStorage
from anchorbolt.state_backends.timed.entries import NextDue
from anchorbolt.state_backends.timed.expiry import indexed_at, joined, keeps_item, split
from anchorbolt.state_backends.timed.index import IndexClock, Item
from anchorbolt.windows.pages import RESERVED

_WAITING_BYTES = 4 << 20  # of changes that are not staged
_OF_WINDOWS = RESERVED.encode()


@dataclass(frozen=True)
class TtlReport:
    """The result of giving a TTL, or of a dry run.

    Attributes:
        store: Description of the store.
        namespaces: The bolt's namespaces with committed data.
        entries: How many entries have got another due time; None after a dry run.
        expires_at: When they expire, in ms since 1970; None if they stay.
        txid: The transaction that gave the TTL, or would give it.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    store: str
    namespaces: tuple[str, ...]
    entries: int | None
    expires_at: int | None
    txid: int
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


def give_ttl(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    ttl_ms: int | None,
    *,
    now: int,
    every_entry: bool = False,
    with_timers: bool = False,
    take_fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> TtlReport:
    """Give the entries of the stateful bolt `component` that have no TTL a due time: `ttl_ms` from now.

    Entries that have expired stay expired. The bolt's timers, and the tuples that Storm's windows keep, get no TTL.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        component: Id of the bolt.
        ttl_ms: The TTL; None removes the TTLs that entries have.
        now: The time, in ms since 1970. If the clock of the last wave is later, that one counts.
        every_entry: Also replace the TTLs that entries have.
        with_timers: Do not refuse a bolt that has timers or event time: the caller knows that its entries are not the
            open windows of a `BaseWindowBolt` or an `IntervalJoin`, which would lose their values.
        take_fence: Continue even if a run holds the fence: a run that is alive ends with `Fenced` at its next wave, and
            a killed run no longer blocks the command.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        MigrationRefused: A run is alive, a transaction is open or a batch may be half committed; the bolt has no state,
            a custom one, or timers; or an entry has no room for a due time. Nothing was changed.
        Fenced: A run has started meanwhile.
        StateError: The store failed; see `StateStorage`.
    """
    snapshot, record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)
    check_has_entries(provider, record, snapshot, component)
    if ttl_ms is not None and not with_timers:
        _refuse_timers(record, component)
    now = max(now, record.clock)
    dues = _Dues(now, None if ttl_ms is None else now + ttl_ms, every_entry or ttl_ms is None)
    names = namespaces_of(record, snapshot, component)
    report = TtlReport(provider.describe(), tuple(names), None, dues.at, record.txid + 1, dry_run)
    if dry_run:
        return report
    progress, winners, entries, first_dues = progress or Progress(), dict[str, Winner](), 0, list[NextDue]()
    with begun(provider, snapshot, record, command="ttl") as transaction:
        for name in names:
            storage = transaction.storages[name]
            changes = NamespaceChanges(storage, transaction.writer(name, transaction.heads[name].codec))
            progress.begin(f"giving entries of {name} a TTL", storage.count())
            entries += _give(dues, storage, changes, progress.advance)
            winners[name] = changes.sealed()
            first_dues.append(NextDue(expiry=changes.next_due(IndexClock.EXPIRY)))
        times = record.times.get(component, BoltTimes())
        due = times.due._replace(expiry=NextDue.earliest(first_dues).expiry)
        changed = replace(record, times={**record.times, component: replace(times, due=due)})
        transaction.finish(changed, winners)
    return replace(report, entries=entries)


def _refuse_timers(record: DecisionRecord, component: str) -> None:
    if record.times.get(component, BoltTimes()).has_more_than_ttls:
        raise MigrationRefused(
            f"{component!r} has timers or event time: its entries may be open windows, which would lose their values "
            "when they expire. Nothing was changed. If it has neither windows by key nor an interval join, repeat the "
            "command with --with-timers."
        )


class _Dues(NamedTuple):
    """The due time that the entries get."""

    now: int
    at: int | None  # None removes due times
    replaces: bool  # whether also entries get it that have one

    def given(self, page: Page) -> tuple[Page, list[Item]]:
        """Return the entries of a page that change, as they are to be stored, and their items for the index.

        Raises `SerializationError` if a header is damaged.
        """
        changed: Page = []
        items: list[Item] = []
        latest = None if self.at is None else indexed_at(self.at, self.now)
        for key, data in page:
            if key.startswith(INDEX_TAG) or _OF_WINDOWS in key:
                continue
            due, value = split(data)
            if due is not None and (not self.replaces or due[0] <= self.now):
                continue
            if self.at is None or latest is None:
                changed += [(key, value)] if due is not None else ()
                continue
            keeps = due is not None and keeps_item(due, self.at, latest, self.now)
            indexed = due[1] if due is not None and keeps else latest
            changed.append((key, joined((self.at, indexed), value)))
            if not keeps:
                items.append((indexed, key))
        return changed, items


def _give(dues: _Dues, storage: StateStorage, changes: NamespaceChanges, advance: Callable[[int], None]) -> int:
    """Change the entries of one namespace; return their number."""
    name, given = storage.namespace, 0
    for page in storage.scan():
        try:
            changed, items = dues.given(page)
        except SerializationError as error:
            raise StateCorrupted(f"state {name!r}: {error}. {START_OVER}.", namespace=name) from error
        changes.put(changed)
        changes.index(IndexClock.EXPIRY, items, dues.now)
        given += len(changed)
        if changes.size > _WAITING_BYTES:
            changes.stage()
        advance(len(page))
    return given
