"""Plans the recovery from the records and heads that a starting driver has read. Pure: the coordinator runs it.

The store is checked against two witnesses: the decision record in it, and the record's copy at the checkpoint location.
If they contradict each other, the start fails with `StateRegressed`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.state_machine import Action, Phase
from anchorbolt.errors import QueryChanged, StateRegressed
from anchorbolt.state_backends.contract import NamespaceHead, regressed, shown_position
from anchorbolt.state_backends.state import NOTHING_COMMITTED

_NEVER = Committed(NOTHING_COMMITTED, "")


@dataclass(frozen=True)
class RecoveryPlan:
    """The actions before the first wave."""

    record: DecisionRecord
    action: Action  # COMMIT rolls forward, ROLLBACK rolls back, INITSTATE leaves everything as it is
    roll_forward: Mapping[str, Winner] = field(default_factory=dict)  # namespaces that must still commit
    leftovers: tuple[str, ...] = ()  # namespaces with attempts to drop

    def outcome(self, *, is_new: bool) -> str:
        """Return the recovery's name for users; `is_new` means that the store has no decision record."""
        otherwise = "started" if is_new else "resumed"
        return {Action.COMMIT: "rolled forward", Action.ROLLBACK: "rolled back"}.get(self.action, otherwise)


def plan_recovery(
    stored: DecisionRecord | None, copied: DecisionRecord | None, heads: Mapping[str, NamespaceHead]
) -> RecoveryPlan:
    """Plan the recovery from the records and the heads of all namespaces, read after the fence was raised everywhere.

    Raises `StateRegressed` if the store went back in time, or lost data.
    """
    record = agreed_record(stored, copied)
    roll_forward = {}
    leftovers = []
    for namespace in sorted({*heads, *record.namespaces}):
        verdict = judge_namespace(record, namespace, heads.get(namespace, NamespaceHead()))
        if verdict.winner is not None:
            roll_forward[namespace] = verdict.winner
        if verdict.has_leftovers:
            leftovers.append(namespace)
    state = record.state
    if state.phase is Phase.COMMITTED and leftovers:
        state = state.begin()  # attempts beside a COMMITTED record: an interrupted PREPARING
    return RecoveryPlan(record, state.recovery(), roll_forward, tuple(leftovers))


class NamespaceVerdict(NamedTuple):
    """The actions of recovery in one namespace."""

    winner: Winner | None  # the decided attempt that it must still commit
    has_leftovers: bool  # whether it holds attempts to drop


def judge_namespace(record: DecisionRecord, namespace: str, head: NamespaceHead) -> NamespaceVerdict:
    """Return the actions of recovery in one namespace. Raises `StateRegressed` if its head contradicts the record."""
    winner = record.winners.get(namespace) if record.state.phase is Phase.COMMITTING else None
    expected = record.namespaces.get(namespace, _NEVER)
    has_leftovers = any(attempt != (winner.attempt if winner else None) for attempt in head.attempts)
    if winner is not None and head.committed == winner.base:
        staged = head.attempts.get(winner.attempt)
        if staged is None or staged.seal != winner.seal:
            raise regressed(
                namespace,
                f"attempt {winner.attempt} staged for txid {record.txid}",
                f"attempts {', '.join(head.attempts) or '(none)'}, committed txid {head.committed}",
            )
        return NamespaceVerdict(winner, has_leftovers)
    if (head.committed, head.winner) != (expected.txid, expected.attempt):
        found = shown_position(head.committed, head.winner)
        raise regressed(namespace, shown_position(expected.txid, expected.attempt), found)
    return NamespaceVerdict(None, has_leftovers)


def agreed_record(stored: DecisionRecord | None, copied: DecisionRecord | None) -> DecisionRecord:
    """Return the decision record to continue from.

    Raises `StateRegressed` if the store's record is missing, is older than the copy, or has another decision.
    """
    if copied is None:
        return stored or DecisionRecord()
    if stored is None:
        raise regressed(None, f"a decision record at txid {copied.txid} or later", "no decision record")
    if stored.txid < copied.txid:
        raise regressed(None, f"a decision record at txid {copied.txid} or later", f"one at txid {stored.txid}")
    if stored.txid == copied.txid and stored.winners != copied.winners:
        expected = f"the decision of txid {copied.txid} as it was copied to the checkpoint location"
        raise regressed(None, expected, "another decision for the same txid")
    return stored


def check_same_decision(record: DecisionRecord, stored: DecisionRecord | None, copied: DecisionRecord | None) -> None:
    """Check that no other driver has decided anything since this driver's last decision.

    `record` is the last record that this driver wrote or found. The phase is not compared: a store that lost only the
    mark COMMITTED has lost no data.
    """
    known = agreed_record(stored, copied)
    if stored is not None and _decision(known) == _decision(record):
        return
    expected = f"the decision of txid {record.txid} that this driver made or found last"
    found = "none" if stored is None else f"another one, of txid {known.txid}"
    raise StateRegressed(
        f"the store went back in time while the topology ran: expected {expected}, found {found}. A driver that "
        "started meanwhile may have been given the same generation. Nothing was rolled back. End every driver of the "
        "topology and start one again: it continues, or says what has to be restored.",
        expected=expected,
        found=found,
    )


def is_of_query(record: DecisionRecord, query_id: str) -> bool:
    """Return whether a record belongs to the streaming query `query_id`, or to none yet."""
    return record.query_id in ("", query_id)


def bound_to_query(record: DecisionRecord, query_id: str) -> DecisionRecord:
    """Return the record to continue from with the streaming query `query_id`; a new query begins with batch 0."""
    if is_of_query(record, query_id):
        return replace(record, query_id=query_id)
    return replace(record, query_id=query_id, batch_id=-1, offsets_digest="")


def check_sequence(record: DecisionRecord, batch_id: int) -> None:
    """Refuse a batch that is neither the last committed one nor the next: Spark itself never runs any other."""
    # An older batch: Spark may now plan other data under this number than the data that was committed.
    if batch_id < record.batch_id:
        raise QueryChanged(
            f"streaming query {record.query_id} is at batch {batch_id}, but its batches up to {record.batch_id} are "
            "part of the state: the checkpoint location was restored from an older copy, or edited. Skipping the batch "
            "could lose input; running it could count input twice. Restore the checkpoint location to where it was; or "
            "restore the store and, because this run has written there, the checkpoint location once more, from "
            "backups of one moment."
        )
    # Batches in between are missing: they were committed once, and would be lost.
    if record.batch_id >= 0 and batch_id > record.batch_id + 1:
        raise regressed(
            None, f"batch {batch_id - 1} of streaming query {record.query_id} committed", f"batch {record.batch_id}"
        )


def _decision(record: DecisionRecord) -> object:
    return record.txid, record.winners, record.outbox
