"""Moves the state of a stateful bolt to a bolt with another id, in one more transaction of the topology.

The entries are staged in the new namespaces, and their removal in the old ones: see `anchorbolt.maintenance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anchorbolt.checkpoint.decision import DecisionRecord, Winner
from anchorbolt.errors import MigrationRefused
from anchorbolt.maintenance.attempt_writer import slices_of
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.stopped_topology import (
    begun,
    bolts_with_state,
    check_has_entries,
    namespaces_of,
    read_stopped,
)
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.streams.declaration import check_name


@dataclass(frozen=True)
class RenameReport:
    """The result of a rename, or of a dry run.

    Attributes:
        store: Description of the store.
        namespaces: Each old namespace with committed data, and its new name.
        entries: How many entries were moved; None after a dry run.
        txid: The transaction that renamed, or would rename.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    store: str
    namespaces: tuple[tuple[str, str], ...]
    entries: int | None
    txid: int
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


def rename_state(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    new_id: str,
    *,
    take_fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RenameReport:
    """Move the state of the stateful bolt `component` to the bolt `new_id`.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        component: Id of the bolt that has the state.
        new_id: Id of the bolt that gets the state. It must have no state yet.
        take_fence: Continue even if a run holds the fence: a run that is alive ends with `Fenced` at its next wave, and
            a killed run no longer blocks the rename.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        MigrationRefused: A run is alive, a transaction is open or a batch may be half committed, the bolt has no state
            or a custom one, or the new bolt already has state. Nothing was written.
        TopologyError: `new_id` is not a valid id.
        Fenced: A run has started meanwhile.
        StateError: The store failed; see `StateStorage`.
    """
    check_name("component", new_id)
    snapshot, record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)
    check_has_entries(provider, record, snapshot, component)
    if new_id in bolts_with_state(record, snapshot):
        raise MigrationRefused(f"{new_id!r} has state already in {provider.describe()}. Name a bolt without state.")
    tasks = range(record.parallelism[component])
    names = [(task_namespace(prefix, component, index), task_namespace(prefix, new_id, index)) for index in tasks]
    with_data = namespaces_of(record, snapshot, component)
    names = [(old, new) for old, new in names if old in with_data]
    report = RenameReport(provider.describe(), tuple(names), None, record.txid + 1, dry_run)
    if dry_run:
        return report
    progress, winners, entries = progress or Progress(), dict[str, Winner](), 0
    with begun(provider, snapshot, record, (new for _, new in names), command="rename") as transaction:
        storages = transaction.storages
        for old, new in names:
            codec = transaction.heads[old].codec
            leaving, arriving = transaction.writer(old, codec), transaction.writer(new, codec)
            progress.begin(f"moving {old} to {new}", storages[old].count())
            for page in slices_of(old, storages[old].scan(), storages[new].limits):
                arriving.stage(dict(page))
                leaving.stage(dict.fromkeys(key for key, _ in page))
                entries += len(page)
                progress.advance(len(page))
            winners |= {new: arriving.sealed(), old: leaving.sealed()}
        transaction.finish(_renamed(record, component, new_id), winners)
    return replace(report, entries=entries)


def _renamed(record: DecisionRecord, component: str, new_id: str) -> DecisionRecord:
    def renamed(facts: Mapping[str, Any]) -> dict[str, Any]:
        others = {name: fact for name, fact in facts.items() if name not in (component, new_id)}
        return others | ({new_id: facts[component]} if component in facts else {})

    return replace(
        record,
        parallelism=renamed(record.parallelism),
        groupings=renamed(record.groupings),
        state_schemas=renamed(record.state_schemas),
        times=renamed(record.times),
        left_behind=tuple(name for name in record.left_behind if name != component),
    )
