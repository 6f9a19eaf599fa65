"""Opens a topology that is not running for a command that changes its state in one more transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import Fenced, MigrationRefused
from anchorbolt.maintenance.one_transaction import OneTransaction, claimed
from anchorbolt.migration_tools.copy import check_source
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.rules import prefix_of, task_namespace


def read_stopped(
    provider: StateProvider, topology: str, prefix: str, *, taken: bool, dry_run: bool
) -> tuple[TopologySnapshot, DecisionRecord]:
    """Return the snapshot and the last record of a topology, after checking that a command may change its state.

    A transaction that is decided, as by a command that was killed, is committed first, unless it is a wave whose sinks
    have files to publish. With `taken`, the command takes the fence, so a run may hold it now. Raises
    `MigrationRefused` if a run is alive, a transaction is open or a batch may be half committed.
    """
    snapshot = read_topology(provider, topology, prefix)
    record = snapshot.stored
    if record is not None and not dry_run and (taken or not snapshot.holds_fence) and _can_finish(record, snapshot):
        with begun(provider, snapshot, record, command="") as transaction:
            transaction.commit(record)
        snapshot = read_topology(provider, topology, prefix)
    check_source(snapshot, provider, with_custom_states=True, taken=taken, writes=True)
    record = snapshot.stored
    assert record is not None, "check_source refuses a store without a record"
    if record.committers:
        raise MigrationRefused(
            f"batch {record.txid + 1} of {topology!r} may be half committed. Start the topology as it was, "
            "and let it end as STOPPED or FINISHED."
        )
    return snapshot, record


def _can_finish(record: DecisionRecord, snapshot: TopologySnapshot) -> bool:
    is_custom = any(name in snapshot.heads and snapshot.heads[name].codec == CUSTOM_HEADER for name in record.winners)
    return record.state.phase is Phase.COMMITTING and not (record.outbox or record.dead_letters or is_custom)


def check_has_entries(
    provider: StateProvider, record: DecisionRecord, snapshot: TopologySnapshot, component: str
) -> None:
    """Raise `MigrationRefused` if a bolt has no state, or a custom one, which has no entries."""
    with_state = bolts_with_state(record, snapshot)
    if component not in with_state:
        raise MigrationRefused(
            f"{component!r} has no state in {provider.describe()}. The bolts of {snapshot.topology!r} with state: "
            f"{', '.join(with_state) or 'none'}."
        )
    for name in namespaces_of(record, snapshot, component):
        if name in snapshot.heads and snapshot.heads[name].codec == CUSTOM_HEADER:
            raise MigrationRefused(
                f"{name} belongs to a custom state and has no entries. Change it with its own class."
            )


def bolts_with_state(record: DecisionRecord, snapshot: TopologySnapshot) -> list[str]:
    """Return the stateful bolts of a topology that have committed data, in order."""
    return sorted(
        component
        for component in record.parallelism
        if not component.startswith("__") and namespaces_of(record, snapshot, component)
    )


def namespaces_of(record: DecisionRecord, snapshot: TopologySnapshot, component: str) -> list[str]:
    """Return the namespaces of a bolt's tasks with committed data, by task."""
    prefix = prefix_of(snapshot.record_namespace)
    names = [task_namespace(prefix, component, index) for index in range(record.parallelism[component])]
    return [name for name in names if name in record.namespaces]


@contextmanager
def begun(
    provider: StateProvider,
    snapshot: TopologySnapshot,
    record: DecisionRecord,
    new: Iterable[str] = (),
    *,
    command: str,
) -> Iterator[OneTransaction]:
    """Begin the next transaction of a topology: fence off all other writers, in every namespace.

    `new` are further namespaces that the transaction writes; `command` names the change in the history. Raises `Fenced`
    if a run has changed the state since the snapshot.
    """
    names = {*record.namespaces, *new}
    with claimed(provider, prefix_of(snapshot.record_namespace), record, names, command) as transaction:
        if transaction.log.load()[0] != record:
            raise Fenced("a run has changed the state meanwhile. Nothing was changed. Stop it, and try again.")
        yield transaction
