"""One more transaction of a topology that is not running, made by a command that changes the state of one bolt.

The command stages its updates under the next txid. One decision names the attempts of all namespaces; then they are
committed. If the process dies before the decision, nothing has changed, and the command can be repeated. If it dies
after the decision, the next start of the topology commits, as for any wave. The positions of the sources do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.errors import Fenced, MigrationRefused
from anchorbolt.migration_tools.copy import check_source
from anchorbolt.migration_tools.copy_steps import AttemptWriter
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider, StateStorage
from anchorbolt.state_backends.rules import prefix_of, task_namespace
from anchorbolt.transactional.batches.metadata import BatchMetadata


@dataclass(frozen=True)
class OneTransaction:
    """The next transaction of a topology, and the only writer of all of its namespaces."""

    record: DecisionRecord  # of the last transaction
    storages: Mapping[str, StateStorage]
    heads: Mapping[str, NamespaceHead]
    fence: Fence
    log: DecisionLog

    def writer(self, name: str, codec: str) -> AttemptWriter:
        """Begin an attempt in a namespace; `codec` is the format header."""
        return AttemptWriter(self.storages[name], self.fence, self.record.txid + 1, self.heads[name].committed, codec)

    def finish(self, record: DecisionRecord, winners: Mapping[str, Winner]) -> None:
        """Decide, and commit. `record` is the last record with the facts that the command changes."""
        txid = self.record.txid + 1
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
        self.log.next_fence()
        self.log.decide(decision)
        fence = self.log.next_fence()
        for name, winner in winners.items():
            self.storages[name].commit(fence, txid, winner.attempt)
        self.log.write(decision.marked_committed())
        self.log.release()


def read_stopped(
    provider: StateProvider, topology: str, prefix: str, component: str, *, taken: bool
) -> tuple[TopologySnapshot, DecisionRecord]:
    """Return the snapshot and the last record of a topology, after checking that a command may change a bolt's state.

    With `taken`, the command takes the fence, so a run may hold it now.

    Raises:
        MigrationRefused: A run is alive, a transaction is open or a batch may be half committed, or the bolt has no
            state or a custom one.
    """
    snapshot = read_topology(provider, topology, prefix)
    check_source(snapshot, provider, with_custom_states=True, taken=taken)
    record, place = snapshot.stored, provider.describe()
    assert record is not None, "check_source refuses a store without a record"
    with_state = bolts_with_state(record, snapshot)
    if component not in with_state:
        raise MigrationRefused(
            f"{component!r} has no state in {place}. The bolts of {topology!r} with state: "
            f"{', '.join(with_state) or 'none'}."
        )
    for name in namespaces_of(record, snapshot, component):
        if name in snapshot.heads and snapshot.heads[name].codec == CUSTOM_HEADER:
            raise MigrationRefused(
                f"{name} belongs to a custom state and has no entries. Change it with its own class."
            )
    if record.committers:
        raise MigrationRefused(
            f"batch {record.txid + 1} of {topology!r} may be half committed. Start the topology as it was, "
            "and let it end as STOPPED or FINISHED."
        )
    return snapshot, record


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
    provider: StateProvider, snapshot: TopologySnapshot, record: DecisionRecord, new: Iterable[str] = ()
) -> Iterator[OneTransaction]:
    """Begin the next transaction of a topology: fence off all other writers, in every namespace.

    `new` are further namespaces that the transaction writes. Raises `Fenced` if a run has changed the state since the
    snapshot.
    """
    with ExitStack() as stack:
        log = DecisionLog(stack.enter_context(closing(provider.open(snapshot.record_namespace))))
        storages = {name: stack.enter_context(closing(provider.open(name))) for name in {*record.namespaces, *new}}
        fence = log.claim()
        heads = {name: storage.raise_fence(fence) for name, storage in storages.items()}
        if log.load()[0] != record:
            raise Fenced("a run has changed the state meanwhile. Nothing was changed. Stop it, and try again.")
        yield OneTransaction(record, storages, heads, fence, log)


def _of_next(batch: bytes) -> bytes:
    """Return the metadata of a transactional topology's last batch, rewritten for the next txid."""
    if not batch:
        return batch
    metadata = BatchMetadata.decode(batch)
    return replace(metadata, txid=metadata.txid + 1).encode()
