"""Moves the state of a stateful bolt to a bolt with another id, in one more transaction of the topology.

The entries are staged in the new namespaces, and their removal in the old ones, under the next txid. One decision names
all these attempts; then they are committed. If the process dies before the decision, nothing has changed, and the
command can be repeated. If it dies after the decision, the next start of the topology commits, as for any wave. The
positions of the sources do not change.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.errors import Fenced, MigrationRefused
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import check_source
from anchorbolt.migration_tools.copy_steps import AttemptWriter, slices_of
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import StateProvider, StateStorage
from anchorbolt.state_backends.rules import prefix_of, task_namespace
from anchorbolt.streams.declaration import check_name
from anchorbolt.transactional.batches.metadata import BatchMetadata


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
    snapshot = read_topology(provider, topology, prefix)
    record = _checked(snapshot, provider, component, new_id, taken=take_fence)
    tasks = range(record.parallelism[component])
    names = [(task_namespace(prefix, component, index), task_namespace(prefix, new_id, index)) for index in tasks]
    names = [(old, new) for old, new in names if old in record.namespaces]
    report = RenameReport(provider.describe(), tuple(names), None, record.txid + 1, dry_run)
    if dry_run:
        return report
    progress, winners = progress or Progress(), dict[str, Winner]()
    with ExitStack() as stack:
        log = DecisionLog(stack.enter_context(closing(provider.open(snapshot.record_namespace))))
        storages = {
            name: stack.enter_context(closing(provider.open(name))) for name in {*record.namespaces, *chain(*names)}
        }
        # Fence off all others, in every namespace.
        fence = log.claim()
        heads = {name: storage.raise_fence(fence) for name, storage in storages.items()}
        if log.load()[0] != record:
            raise Fenced("a run has changed the state meanwhile. Nothing was changed. Stop it, and try again.")
        entries = 0
        for old, new in names:
            leaving, arriving = (
                AttemptWriter(storages[name], fence, report.txid, heads[name].committed, heads[old].codec)
                for name in (old, new)
            )
            progress.begin(f"moving {old} to {new}", storages[old].count())
            for page in slices_of(old, storages[old].scan(), storages[new].limits):
                arriving.stage(dict(page))
                leaving.stage(dict.fromkeys(key for key, _ in page))
                entries += len(page)
                progress.advance(len(page))
            winners |= {new: arriving.sealed(), old: leaving.sealed()}
        _finish(log, storages, _renamed(record, component, new_id), report.txid, winners)
        log.release()
    return replace(report, entries=entries)


def _finish(
    log: DecisionLog,
    storages: Mapping[str, StateStorage],
    record: DecisionRecord,
    txid: int,
    winners: Mapping[str, Winner],
) -> None:
    """Decide, and commit. `record` is the last record with the new names."""
    changed = {name: Committed(txid, winner.attempt) for name, winner in winners.items()}
    decision = replace(
        record,
        state=record.state.begin().after(Action.PREPARE),
        winners=winners,
        namespaces={**record.namespaces, **changed},
        outbox=(),
        dead_letters=(),
        batch=_of_next(record.batch),
    )
    log.next_fence()
    log.decide(decision)
    fence = log.next_fence()
    for name, winner in winners.items():
        storages[name].commit(fence, txid, winner.attempt)
    log.write(decision.marked_committed())


def _checked(
    snapshot: TopologySnapshot, provider: StateProvider, component: str, new_id: str, *, taken: bool
) -> DecisionRecord:
    check_source(snapshot, provider, with_custom_states=True, taken=taken)
    record, place = snapshot.stored, provider.describe()
    assert record is not None, "check_source refuses a store without a record"
    with_state = sorted(_components(record, snapshot))
    if component not in with_state:
        raise MigrationRefused(
            f"{component!r} has no state in {place}. The bolts of {snapshot.topology!r} with state: "
            f"{', '.join(with_state) or 'none'}."
        )
    if new_id in with_state:
        raise MigrationRefused(f"{new_id!r} has state already in {place}. Name a bolt without state.")
    for name in _names(snapshot, record, component):
        if name in snapshot.heads and snapshot.heads[name].codec == CUSTOM_HEADER:
            raise MigrationRefused(
                f"{name} belongs to a custom state and has no entries. Rename it with its own class."
            )
    if record.committers:
        raise MigrationRefused(
            f"batch {record.txid + 1} of {snapshot.topology!r} may be half committed. Start the topology as it was, "
            "and let it end as STOPPED or FINISHED."
        )
    return record


def _components(record: DecisionRecord, snapshot: TopologySnapshot) -> Iterator[str]:
    for component in record.parallelism:
        if not component.startswith("__") and any(
            name in record.namespaces for name in _names(snapshot, record, component)
        ):
            yield component


def _names(snapshot: TopologySnapshot, record: DecisionRecord, component: str) -> list[str]:
    prefix = prefix_of(snapshot.record_namespace)
    return [task_namespace(prefix, component, index) for index in range(record.parallelism[component])]


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


def _of_next(batch: bytes) -> bytes:
    """Return the metadata of a transactional topology's last batch, rewritten for the next txid."""
    if not batch:
        return batch
    metadata = BatchMetadata.decode(batch)
    return replace(metadata, txid=metadata.txid + 1).encode()
