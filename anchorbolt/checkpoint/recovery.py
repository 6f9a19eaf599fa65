"""What a starting driver does about what it finds. Pure: it reads records and heads, and decides; others act.

The store is checked against two witnesses: the decision record in it, and that record's copy at the checkpoint
location. Where they cannot be reconciled nothing is guessed: `StateRegressed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.state_machine import Action, CheckpointState, Phase
from anchorbolt.errors import BoltError, CodecMismatch, QueryChanged, StateRegressed, TopologyError
from anchorbolt.serialization.schema import FIRST_VERSION
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, START_OVER, NamespaceHead

_NEVER = Committed(NOTHING_COMMITTED, "")


@dataclass(frozen=True)
class RecoveryPlan:
    """What has to be done before the first wave.

    Attributes:
        record: The decision record to go on from.
        state: Where the checkpoint stands, staged leftovers taken into account.
        roll_forward: The namespaces that still have to commit, and their winners.
        leftovers: The namespaces that hold attempts to be dropped.
    """

    record: DecisionRecord
    state: CheckpointState
    roll_forward: Mapping[str, Winner] = field(default_factory=dict)
    leftovers: tuple[str, ...] = ()

    @property
    def action(self) -> Action:
        """COMMIT (roll forward), ROLLBACK, or INITSTATE where there is nothing to mend."""
        return self.state.action(recovering=True)


def plan_recovery(
    stored: DecisionRecord | None, copied: DecisionRecord | None, heads: Mapping[str, NamespaceHead]
) -> RecoveryPlan:
    """Decide what to do, from what was read after the fence was raised everywhere.

    Args:
        stored: The decision record in the store, if there is one.
        copied: Its copy at the checkpoint location, if there is one.
        heads: Every namespace of the topology and of the records.

    Raises:
        StateRegressed: The store went back in time, or lost data.
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
        state = state.begin()
    return RecoveryPlan(record, state, roll_forward, tuple(leftovers))


@dataclass(frozen=True)
class NamespaceVerdict:
    """What recovery does about one namespace.

    Attributes:
        winner: The decided attempt that it still has to commit; None where there is none.
        has_leftovers: Whether it holds attempts to be dropped.
    """

    winner: Winner | None
    has_leftovers: bool


def judge_namespace(record: DecisionRecord, namespace: str, head: NamespaceHead) -> NamespaceVerdict:
    """Decide what to do about one namespace.

    Raises:
        StateRegressed: It is not where the record says: it went back in time, or lost data.
    """
    winner = record.winners.get(namespace) if record.state.phase is Phase.COMMITTING else None
    expected = record.namespaces.get(namespace, _NEVER)
    has_leftovers = any(attempt != (winner.attempt if winner else None) for attempt in head.attempts)
    if winner is not None and head.committed == winner.base:
        staged = head.attempts.get(winner.attempt)
        if staged is None or staged.seal != winner.seal:
            raise _regressed(
                namespace,
                f"attempt {winner.attempt} staged for txid {record.txid}",
                f"attempts {', '.join(head.attempts) or '(none)'}, committed txid {head.committed}",
            )
        return NamespaceVerdict(winner, has_leftovers)
    if (head.committed, head.winner) != (expected.txid, expected.attempt):
        raise _regressed(
            namespace, _position(expected.txid, expected.attempt), _position(head.committed, head.winner)
        )
    return NamespaceVerdict(None, has_leftovers)


def agreed_record(stored: DecisionRecord | None, copied: DecisionRecord | None) -> DecisionRecord:
    """Return the decision record to go on from.

    Raises:
        StateRegressed: The store's is missing, older than the copy, or another decision.
    """
    if copied is None:
        return stored or DecisionRecord()
    if stored is None:
        raise _regressed(None, f"a decision record at txid {copied.txid} or later", "no decision record")
    if stored.txid < copied.txid:
        raise _regressed(
            None, f"a decision record at txid {copied.txid} or later", f"one at txid {stored.txid}"
        )
    if stored.txid == copied.txid and stored.winners != copied.winners:
        raise _regressed(
            None,
            f"the decision of txid {copied.txid} as it was copied to the checkpoint location",
            "another decision for the same txid",
        )
    return stored


def check_unchanged(
    record: DecisionRecord, stored: DecisionRecord | None, copied: DecisionRecord | None
) -> None:
    """Make sure that nobody else has decided anything since the driver that asks.

    Its phase does not count: a store that lost only the mark that a decision was committed has lost nothing.

    Args:
        record: What it decided, or found, last.
        stored: The decision record in the store.
        copied: Its copy at the checkpoint location.

    Raises:
        StateRegressed: Somebody has under this driver's own fence, or its decision is lost: the store went back.
    """
    known = agreed_record(stored, copied)
    if stored is not None and _decision(known) == _decision(record):
        return
    expected = f"the decision of txid {record.txid} that this driver made or found last"
    found = "none" if stored is None else f"another one, of txid {known.txid}"
    raise StateRegressed(
        f"the store went back in time while the topology ran: expected {expected}, found {found}. A driver that "
        "started meanwhile may have been given the same generation. Nothing was rolled back. End every driver of the "
        "topology and start one again: it goes on, or says what has to be restored.",
        expected=expected,
        found=found,
    )


def is_of_query(record: DecisionRecord, query_id: str) -> bool:
    """Say whether a record is of the streaming query `query_id`, or of none yet."""
    return record.query_id in ("", query_id)


def check_query(record: DecisionRecord, query_id: str, *, accept_new: bool) -> DecisionRecord:
    """Return the record to go on from with the streaming query `query_id`.

    Raises:
        QueryChanged: The state was computed from another query, and `accept_new` is not set.
    """
    if is_of_query(record, query_id):
        return replace(record, query_id=query_id)
    if not accept_new:
        place = f"belongs to query {query_id}" if query_id else "is a new one"
        sinks = sorted({repr(file.component) for file in record.outbox})
        waiting = ""
        if sinks and record.state.phase is Phase.COMMITTING:
            waiting = (
                f" Rows of txid {record.txid} for {', '.join(sinks)} wait there to be published; if they are gone, the "
                "run goes on without them."
            )
        raise QueryChanged(
            f"the state was computed from streaming query {record.query_id}, up to its batch {record.batch_id}, but "
            f"this run's checkpoint location {place}. The checkpoint location was deleted or "
            "changed, so the source would be read again from its start and counted twice. Set "
            "topology.checkpoint.location back to where it was. To go on all the same, with the state as it is, set "
            f"topology.checkpoint.accept.new.query to true for one run.{waiting}"
        )
    return replace(record, query_id=query_id, batch_id=-1, offsets_digest="")


def check_topology(topology: str, stored: DecisionRecord | None, copied: DecisionRecord | None) -> None:
    """Refuse a store or a checkpoint location that belongs to another topology.

    Raises:
        QueryChanged: It does.
    """
    for record, where in ((stored, "state store"), (copied, "checkpoint location")):
        if record is not None and record.topology not in ("", topology):
            raise QueryChanged(
                f"the {where} belongs to topology {record.topology!r}, but {topology!r} was submitted. Nothing was "
                f"changed. Give each topology a checkpoint location, and a namespace prefix, of its own."
            )


def check_sequence(record: DecisionRecord, batch_id: int) -> None:
    """Refuse a batch that neither is the committed one again nor follows it: Spark itself never runs another.

    Raises:
        StateRegressed: Batches in between are missing: they were committed once, and would be lost.
        QueryChanged: It is an older one: the checkpoint location went back, and what Spark makes of it now need not be
            the batch that was committed under this number.
    """
    if batch_id < record.batch_id:
        raise QueryChanged(
            f"streaming query {record.query_id} is at batch {batch_id}, but its batches up to {record.batch_id} are "
            "part of the state: the checkpoint location was restored from an older copy, or edited. To skip the batch "
            "could lose input, to run it could count input twice. Restore the checkpoint location to where it was; or "
            "restore the store and, once more since this run has written there, the checkpoint location from backups "
            "of one moment."
        )
    if record.batch_id >= 0 and batch_id > record.batch_id + 1:
        raise _regressed(
            None,
            f"batch {batch_id - 1} of streaming query {record.query_id} committed",
            f"batch {record.batch_id}",
            untouched="No state was written.",  # the run has claimed the topology by now
        )


def check_schemas(record: DecisionRecord, files: Sequence[SinkFile]) -> dict[str, str]:
    """Return the columns of every sink after a wave.

    Raises:
        BoltError: A task wrote other columns than another one, or than an earlier wave: no reader could take both.
    """
    schemas = dict(record.schemas)
    for file in files:
        before = schemas.setdefault(file.component, file.schema)
        if before != file.schema:
            raise BoltError(
                f"sink {file.component!r}, task {file.task_index}, got values of the types ({file.schema}), but it has "
                f"written ({before}) before. Give the sink a schema that fits all values: schema=pyarrow.schema(…).",
                component=file.component,
                task_index=file.task_index,
                tuple_text=None,
                user_traceback="",
            )
    return schemas


def check_parallelism(record: DecisionRecord, parallelism: Mapping[str, int]) -> None:
    """Refuse to divide existing state differently.

    Raises:
        TopologyError: A stateful bolt has another number of tasks than the state was written with.
    """
    for component, tasks in parallelism.items():
        before = record.parallelism.get(component, tasks)
        if before != tasks and record.namespaces:
            raise TopologyError(
                f"bolt {component!r} has parallelism {tasks}, but its state was written by {before} tasks, and each "
                f"task holds the keys that are grouped to it. Set its parallelism back to {before}.",
                component=component,
            )


def check_state_schemas(record: DecisionRecord, versions: Mapping[str, int]) -> None:
    """Refuse a job that is older than the values it would read.

    Args:
        record: The decision record.
        versions: The job's schema version of each stateful bolt.

    Raises:
        CodecMismatch: A bolt's values were written under a later schema version.
    """
    for component, version in versions.items():
        written = record.state_schemas.get(component, version)
        if written > version:
            raise CodecMismatch(
                f"bolt {component!r} has state_schema_version {version}, but its state was written under version "
                f"{written}. Nothing was written. Run the job that wrote it, or a later one."
            )


def check_generation(namespace: str, known: int, heads: Mapping[str, NamespaceHead]) -> None:
    """Make sure that no namespace knows of a driver that the decision record's does not: it is claimed first.

    Args:
        namespace: The decision record's namespace.
        known: Its generation, read after `heads`.
        heads: Where the other namespaces stood.

    Raises:
        StateRegressed: One does.
    """
    for name, head in heads.items():
        if head.fence.generation > known:
            raise StateRegressed(
                f"namespace {name!r} was written by driver generation {head.fence.generation}, but "
                f"{namespace!r} knows only {known}: it went back in time or lost data. Nothing was written. "
                f"{START_OVER}.",
                namespace=namespace,
                expected=f"generation {head.fence.generation}",
                found=f"generation {known}",
            )


def check_codec(namespace: str, written: str, configured: str) -> None:
    """Refuse to read a namespace with other codecs than it was written with; both as format headers.

    Raises:
        CodecMismatch: They differ.
    """
    if written and written != configured:
        is_custom = CUSTOM_HEADER in (written, configured)
        keys = "topology.state.provider" if is_custom else "keySerializerClass and valueSerializerClass"
        raise CodecMismatch(
            f"state {namespace!r} was written as {written!r}, but the configuration says {configured!r}. Set "
            f"{keys} back to what wrote it.",
            namespace=namespace,
        )


def later_versions(versions: Mapping[str, int]) -> dict[str, int]:
    """Return those schema versions that a decision record names: the first one goes without saying."""
    return {component: version for component, version in versions.items() if version > FIRST_VERSION}


def _position(txid: int, attempt: str) -> str:
    return f"txid {txid} from attempt {attempt}" if attempt else "nothing committed"


def _decision(record: DecisionRecord) -> object:
    return record.txid, record.winners, record.outbox


def _regressed(
    namespace: str | None, expected: str, found: str, *, untouched: str = "Nothing was written."
) -> StateRegressed:
    where = f"namespace {namespace!r}" if namespace else "the store"
    return StateRegressed(
        f"{where} went back in time or lost data: expected {expected}, found {found}. {untouched} {START_OVER}.",
        namespace=namespace,
        expected=expected,
        found=found,
    )
