"""The target of an import from Storm: what it has already, and the one transaction that writes the rest."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.errors import Fenced, MigrationRefused
from anchorbolt.maintenance.attempt_writer import AttemptWriter
from anchorbolt.maintenance.namespace_changes import NamespaceChanges, stage_if_many
from anchorbolt.maintenance.one_transaction import OneTransaction, claimed
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.storm_entries import Fingerprint, StormBolt
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.rules import task_namespace


@dataclass(frozen=True)
class Survey:
    """What the first pass over Storm's state found."""

    attempt: str  # the id of the attempts: a hash of all that is imported
    entries: Sequence[int]  # by bolt


class ImportTarget:
    """A new topology at the target, whose first transaction is `txid`."""

    def __init__(
        self, target: StateProvider, topology: str, prefix: str, tasks: Mapping[str, int], txid: int, codecs: Codecs
    ) -> None:
        self._target = target
        self._topology = topology
        self._prefix = prefix
        self._txid = txid
        self._codecs = codecs
        self._header = EntryEncoding("", codecs.keys, codecs.values).header
        self._before = DecisionRecord(topology, CheckpointState(txid - 1, Phase.COMMITTED), parallelism=tasks)
        self._names = {
            bolt: [task_namespace(prefix, bolt, index) for index in range(count)] for bolt, count in tasks.items()
        }
        self._all_names = [name for names in self._names.values() for name in names]

    def stored(self) -> DecisionRecord | None:
        """Return the record of an earlier import; None if the target has no state of the topology.

        Raises `MigrationRefused` if it has other state.
        """
        snapshot = read_topology(self._target, self._topology, self._prefix)
        for reason in snapshot.unreadable.values():
            raise MigrationRefused(f"{self._target.describe()} cannot be read: {reason} Import into an empty store.")
        record = snapshot.stored
        if record is not None:
            is_same = (record.topology, record.txid) == (self._topology, self._txid)
            if not is_same or record.query_id or set(record.namespaces) != {*self._all_names}:
                raise self._other_state([snapshot.record_namespace])
            return record
        heads = dict(snapshot.heads)
        for name in self._all_names:  # without a prefix, the snapshot has only what a record names
            with closing(self._target.open(name)) as storage:
                heads[name] = storage.head()
        if taken := [name for name, head in heads.items() if head.committed != NOTHING_COMMITTED]:
            raise self._other_state(taken)
        return None

    def survey(self, bolts: Sequence[StormBolt], stored: DecisionRecord | None, progress: Progress) -> Survey:
        """Read and check all entries. Raises `MigrationRefused` if `stored` is of an import of other entries."""
        with closing(self._target.open(self._all_names[0])) as storage:
            limits = storage.limits
        prints = []
        for bolt in bolts:
            fingerprint = Fingerprint()
            for _ in bolt.entries(self._codecs, limits, fingerprint, progress):
                pass
            prints.append(fingerprint.rows())
            bolt.refuse_equal_keys(self._codecs, prints[-1])
        survey = Survey(self._attempt(prints), [len(rows) for rows in prints])
        ours = Committed(self._txid, survey.attempt)
        if stored is not None and any(each != ours for each in stored.namespaces.values()):
            raise self._other_state(list(stored.namespaces))
        return survey

    @contextmanager
    def begun(self) -> Iterator[OneTransaction]:
        """Claim the topology, and fence off all other writers; a refusal in the block drops what was staged."""
        with claimed(self._target, self._prefix, self._before, self._all_names, "storm-state") as transaction:
            try:
                yield transaction
            except MigrationRefused:
                for storage in transaction.storages.values():
                    storage.rollback(transaction.fence)
                raise

    def stage(
        self, transaction: OneTransaction, bolts: Sequence[StormBolt], attempt: str, progress: Progress
    ) -> tuple[dict[str, Winner], str]:
        """Stage all entries; return the attempts to commit, and the id that they would have now."""
        is_empty = all(head.committed == NOTHING_COMMITTED for head in transaction.heads.values())
        if transaction.log.load()[0] is not None or not is_empty:
            raise Fenced("a run or another import has written to the target meanwhile. Nothing was changed.")
        winners: dict[str, Winner] = {}
        prints = []
        for bolt in bolts:
            changes = {}
            for name in self._names[bolt.component]:
                storage, fence = transaction.storages[name], transaction.fence
                storage.rollback(fence)  # what a killed import has staged
                writer = AttemptWriter(storage, fence, self._txid, NOTHING_COMMITTED, self._header, attempt)
                changes[name] = NamespaceChanges(storage, writer)
            of_tasks = list(changes.values())
            fingerprint = Fingerprint()
            limits = transaction.storages[self._all_names[0]].limits
            for page in bolt.entries(self._codecs, limits, fingerprint, progress):
                for entry in page:
                    of_tasks[entry.task].put([(entry.key, entry.value)])
                stage_if_many(of_tasks)
            winners |= {name: each.sealed() for name, each in changes.items()}
            prints.append(fingerprint.rows())
        return winners, self._attempt(prints)

    def finish(self, transaction: OneTransaction, stored: DecisionRecord) -> None:
        """Commit what an earlier import has decided."""
        if transaction.log.load()[0] != stored:
            raise Fenced("a run or another import has written to the target meanwhile. Nothing was changed.")
        transaction.commit(stored)

    def _attempt(self, prints: Sequence[NDArray[np.uint64]]) -> str:
        hashed = blake2b(f"{self._header} {sorted(self._before.parallelism.items())}".encode(), digest_size=16)
        for rows in prints:
            hashed.update(len(rows).to_bytes(8, "big"))
            hashed.update(rows.data)
        return hashed.hexdigest()

    def _other_state(self, names: Sequence[str]) -> MigrationRefused:
        return MigrationRefused(
            f"{self._target.describe()} has other state of {self._topology!r}, in {', '.join(names)}: nothing was "
            "changed. Import into an empty store, or under another name."
        )
