"""Removes the state of a topology that is gone from a store; or the entries of one bolt, in one transaction.

The namespace of the decision record is removed last. Until then the record says what each namespace has committed, so a
start on the rest of a purge that was killed is refused with `StateRegressed`, and the same call finishes the purge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord, Winner
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ, DecisionLog
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import Fenced, MigrationRefused
from anchorbolt.maintenance.changes import change_record
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy_steps import claimed
from anchorbolt.migration_tools.stopped_topology import begun, check_has_entries, read_stopped
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import component_of, prefix_of


@dataclass(frozen=True)
class PurgeReport:
    """The result of a purge, or of a dry run.

    Attributes:
        store: Description of the store.
        namespaces: The number of entries in each purged namespace; None if the store does not know it.
        custom: Those of them that belong to a custom state, whose own data stays.
        change: The record of the change for the history; empty after a dry run, or if the store has it.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    store: str
    namespaces: Mapping[str, int | None]
    custom: tuple[str, ...]
    change: str
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: value for name, value in vars(self).items() if name != "change"}


def purge_topology(
    provider: StateProvider,
    topology: str,
    prefix: str,
    *,
    take_fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> PurgeReport:
    """Remove all namespaces of a topology, and those with its prefix that are left over.

    A call after an interrupted one finishes it. The checkpoint location, dead letters and the output of sinks stay.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty: then only the namespaces that the decision
            record names, and those of its tasks, are removed.
        take_fence: Continue even if a run holds the fence, or a transaction is open.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        MigrationRefused: The store has no such state; a run is alive, or a transaction is open. Nothing was changed.
        Fenced: A run has started meanwhile.
        StateError: The store failed, or cannot remove namespaces; see `StateStorage`.
    """
    snapshot = read_topology(provider, topology, prefix)
    record = snapshot.stored
    found = {  # without those of a longer prefix, which are another topology's
        name: head
        for name, head in snapshot.heads.items()
        if prefix_of(name) == prefix and (head != NamespaceHead() or name in snapshot.unreadable)
    }
    _check(provider, snapshot, found, taken=take_fence)
    names = [*found, snapshot.record_namespace]
    report = _report(provider, names, found, dry_run=dry_run)
    if dry_run:
        return report
    progress = progress or Progress()
    with ExitStack() as stack:
        storages = {name: stack.enter_context(closing(provider.open(name))) for name in names}
        of_record = storages[snapshot.record_namespace]
        generation = max(head.fence.generation for head in (snapshot.record_head, *found.values()))
        fence = claimed(of_record, generation, RELEASED_SEQ)
        for storage in storages.values():
            storage.raise_fence(fence)
        if DecisionLog(of_record).load()[0] != record:
            raise Fenced("a run has changed the state meanwhile. Nothing was changed. Stop it, and try again.")
        progress.begin(f"removing the namespaces of {topology}", len(storages))
        for storage in storages.values():
            storage.remove(fence)
            progress.advance(1)
    txid = -1 if record is None else record.txid
    deleted = {name: count or 0 for name, count in report.namespaces.items() if name != snapshot.record_namespace}
    return replace(report, change=change_record("purge", fence.generation, txid, deleted=deleted))


def purge_component(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    *,
    take_fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> PurgeReport:
    """Delete all entries of a bolt of a stopped topology, in one transaction. It may be a bolt that was removed.

    A start with this bolt then begins without its state. Arguments and errors are those of `purge_topology`;
    `component` is the id of the bolt. A custom state is refused.
    """
    snapshot, record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)
    names = [name for name in record.namespaces if component_of(name) == component]
    if component in record.parallelism or not names or component.startswith(("$", "__")):
        check_has_entries(provider, record, snapshot, component)
    report = _report(provider, names, {}, dry_run=dry_run)
    if dry_run or component not in record.parallelism:  # an earlier call has decided
        return report
    progress, winners = progress or Progress(), dict[str, Winner]()
    with begun(provider, snapshot, record, command="purge") as transaction:
        for name in names:
            storage, writer = transaction.storages[name], transaction.writer(name, transaction.heads[name].codec)
            progress.begin(f"deleting the entries of {name}", storage.count())
            for page in storage.scan():
                writer.stage(dict.fromkeys(key for key, _ in page))
                progress.advance(len(page))
            winners[name] = writer.sealed()
        transaction.finish(_without(record, component), winners)
    return report


def forget_deleted_keys(
    provider: StateProvider, topology: str, prefix: str, *, take_fence: bool = False, dry_run: bool = False
) -> dict[str, int]:
    """Remove what the store of a stopped topology keeps of deleted keys; return their number by namespace.

    Only HBase keeps anything. Call it when no process of a driver from before the deletes is left. The errors are those
    of `purge_topology`.
    """
    snapshot, record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)
    if dry_run:
        return {}
    with begun(provider, snapshot, record, command="") as transaction:
        return {name: storage.forget_deleted() for name, storage in transaction.storages.items()}


def _check(
    provider: StateProvider, snapshot: TopologySnapshot, found: Mapping[str, NamespaceHead], *, taken: bool
) -> None:
    topology, record, place = snapshot.topology, snapshot.stored, provider.describe()
    if not found and snapshot.record_head == NamespaceHead() and not snapshot.unreadable:
        raise MigrationRefused(
            f"{place} has no state of {topology!r} ({snapshot.record_namespace}): nothing was changed. Check the name, "
            "the prefix and the store; anchorbolt state ls lists the topologies."
        )
    if record is not None and record.topology not in ("", topology):
        raise MigrationRefused(
            f"{snapshot.record_namespace} in {place} belongs to the topology {record.topology!r}, not to {topology!r}. "
            "Nothing was changed. Give that name, or the prefix of this topology."
        )
    if snapshot.has_moved:
        raise MigrationRefused(f"a run of {topology!r} is writing to {place}: stop it first.")
    if snapshot.holds_fence and not taken:
        raise MigrationRefused(
            f"generation {snapshot.generation} of {topology!r} holds the fence in {place}: a run is alive, or was "
            "killed. Nothing was changed. Stop it; if it was killed, repeat the command with --take-fence."
        )
    if record is not None and record.state.phase is not Phase.COMMITTED and not taken:
        raise MigrationRefused(
            f"the transaction {record.txid} of {topology!r} is open in {place}. Nothing was changed. Start the "
            "topology once and stop it; or repeat the command with --take-fence."
        )


def _report(
    provider: StateProvider, names: Sequence[str], heads: Mapping[str, NamespaceHead], *, dry_run: bool
) -> PurgeReport:
    counts: dict[str, int | None] = {}
    for name in names:
        with closing(provider.open(name)) as storage:
            counts[name] = storage.count()
    custom = tuple(name for name, head in heads.items() if head.codec == CUSTOM_HEADER)
    return PurgeReport(provider.describe(), counts, custom, "", dry_run)


def _without(record: DecisionRecord, component: str) -> DecisionRecord:
    def without(facts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: fact for name, fact in facts.items() if name != component}

    return replace(
        record,
        parallelism=without(record.parallelism),
        groupings=without(record.groupings),
        state_schemas=without(record.state_schemas),
        times=without(record.times),
        left_behind=tuple(name for name in record.left_behind if name != component),
    )
