"""One more transaction of a topology, between two waves.

Its updates are staged under the next txid. One decision names the attempts of all namespaces; then they are committed.
If the process dies before the decision, nothing has changed, and the work can be repeated. If it dies after the
decision, the next start of the topology commits, as for any wave, or the next command does. The positions of the
sources do not change. The decision comes with the record of who changed what: see `anchorbolt.maintenance.changes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

from anchorbolt.checkpoint.custom_state import commit_custom
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.maintenance.attempt_writer import AttemptWriter, CountedWinner
from anchorbolt.maintenance.changes import change_record
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider, StateStorage
from anchorbolt.state_backends.state import State
from anchorbolt.transactional.batches.metadata import BatchMetadata


@dataclass(frozen=True)
class OneTransaction:
    """The next transaction of a topology, and the only writer of all of its namespaces."""

    record: DecisionRecord  # of the last transaction
    command: str  # that makes this one, for the history; `start` for a run that starts
    storages: Mapping[str, StateStorage]
    heads: Mapping[str, NamespaceHead]
    fence: Fence
    log: DecisionLog
    custom: dict[str, State] = field(default_factory=dict)  # by namespace: custom states that have prepared

    def writer(self, name: str, codec: str) -> AttemptWriter:
        """Begin an attempt in a namespace; `codec` is the format header."""
        return AttemptWriter(self.storages[name], self.fence, self.record.txid + 1, self.heads[name].committed, codec)

    def finish(
        self, record: DecisionRecord, winners: Mapping[str, Winner], keys: tuple[object, ...] = ()
    ) -> DecisionRecord:
        """Decide, and commit. `record` is the last record with the facts that change; return the new one.

        `keys` are those of a change of single keys, for the history.
        """
        txid = self.record.txid + 1
        changed = {name: Committed(txid, winner.attempt) for name, winner in winners.items()}
        decision = replace(
            record,
            state=record.state.begin().after(Action.PREPARE),
            winners={name: Winner(each.attempt, each.base, each.seal) for name, each in winners.items()},
            namespaces={**record.namespaces, **changed},
            outbox=(),
            dead_letters=(),
            batch=_of_next(record.batch),
        )
        self.log.next_fence()
        counted = {name: each for name, each in winners.items() if isinstance(each, CountedWinner)}
        change = change_record(
            self.command,
            self.fence.generation,
            txid,
            put={name: each.put for name, each in counted.items()},
            deleted={name: each.deleted for name, each in counted.items()},
            keys=keys,
            tasks=_other_tasks(self.record, record),
        )
        self.log.decide(decision, change)
        return self.commit(decision)

    def commit(self, decision: DecisionRecord) -> DecisionRecord:
        """Commit a decision in all of its namespaces; return its record, COMMITTED. May be repeated."""
        fence = self.log.next_fence()
        for name, winner in decision.winners.items():
            if (state := self.custom.get(name)) is None:
                self.storages[name].commit(fence, decision.txid, winner.attempt)
            else:
                commit_custom(state, self.storages[name], fence, decision.txid, winner.attempt)
        for state in self.custom.values():
            state.close()
        committed = decision.marked_committed()
        self.log.write(committed)
        return committed


@contextmanager
def claimed(
    provider: StateProvider, prefix: str, record: DecisionRecord, names: Iterable[str], command: str
) -> Iterator[OneTransaction]:
    """Claim a topology for a command, and fence off all other writers in these namespaces."""
    with ExitStack() as stack:
        log = DecisionLog(stack.enter_context(closing(provider.open(record_namespace(prefix)))))
        storages = {name: stack.enter_context(closing(provider.open(name))) for name in names}
        fence = log.claim_for_command()
        heads = {name: storage.raise_fence(fence) for name, storage in storages.items()}
        yield OneTransaction(record, command, storages, heads, fence, log)


def _other_tasks(before: DecisionRecord, after: DecisionRecord) -> dict[str, tuple[int, int]]:
    """Return the number of tasks before and after, by component that has another number; 0 if it has no state."""
    names = sorted({*before.parallelism, *after.parallelism})
    tasks = {name: (before.parallelism.get(name, 0), after.parallelism.get(name, 0)) for name in names}
    return {name: (old, new) for name, (old, new) in tasks.items() if old != new}


def _of_next(batch: bytes) -> bytes:
    """Return the metadata of a transactional topology's last batch, rewritten for the next txid."""
    if not batch:
        return batch
    metadata = BatchMetadata.decode(batch)
    return replace(metadata, txid=metadata.txid + 1).encode()
