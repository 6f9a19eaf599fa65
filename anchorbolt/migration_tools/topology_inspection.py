"""Reads a topology's state, and explains it: what is committed, what blocks a checkpoint, what the next start will do.

The state is the decision record, the record's copy and the heads of all namespaces. No fence is raised. A start decides
with the same functions of `checkpoint.recovery`.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import (
    RELEASED_SEQ,
    DecisionLog,
    Records,
    is_record_namespace,
    query_id_at,
    record_namespace,
)
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.recovery import is_of_query, judge_namespace, plan_recovery
from anchorbolt.checkpoint.startup import Found, startup_problems
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.errors import AnchorboltError, StateCorrupted, StateError, StateRegressed, WaveFailed
from anchorbolt.files import Folder
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs, measured
from anchorbolt.state_backends.contract import NamespaceHead, StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.rules import prefix_of, task_namespace
from anchorbolt.transactional.batches.metadata import BatchMetadata
from anchorbolt.util.messages import counted, shortened
from anchorbolt.util.times import LATEST_MS, shown_time

_T = TypeVar("_T")
_ATTEMPTS = 3
_SHOWN_METADATA = 1000  # characters


@dataclass(frozen=True)
class TopologySnapshot:
    """The state of a topology at the time of reading."""

    topology: str
    record_namespace: str
    record_head: NamespaceHead = field(default_factory=NamespaceHead)
    stored: DecisionRecord | None = None
    copied: DecisionRecord | None = None  # the decision record's copy at the checkpoint location
    query_id: str | None = None  # of the streaming query at the checkpoint location
    location: str = ""  # the checkpoint location; empty if only the store was read
    heads: Mapping[str, NamespaceHead] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)  # namespaces, or "" for the query's id, and why
    has_moved: bool = False  # whether a run was writing during the reading

    @property
    def generation(self) -> int:
        """The last generation claimed by a driver."""
        return self.record_head.fence.generation

    @property
    def holds_fence(self) -> bool:
        """Whether the driver of the last claim has not released its fence."""
        return self.generation > 0 and self.record_head.fence.seq != RELEASED_SEQ

    def found(self, heads: Mapping[str, NamespaceHead]) -> Found:
        """Return the findings of a start that reads these heads."""
        query_id = None if self.has_moved else self.query_id
        return Found(self.stored, self.copied, query_id, heads, self.record_namespace, self.generation)


def read_topology(
    provider: StateProvider, topology: str, prefix: str, folder: Folder | None = None
) -> TopologySnapshot:
    """Read the state of a topology; up to three times more while a run is changing it."""
    snapshot = _read(provider, topology, prefix, folder)
    for _ in range(_ATTEMPTS):
        again = _read(provider, topology, prefix, folder)
        if again == snapshot:
            return snapshot
        snapshot = again
    return replace(snapshot, has_moved=True)


def _read(provider: StateProvider, topology: str, prefix: str, folder: Folder | None) -> TopologySnapshot:
    name = record_namespace(prefix)
    unreadable: dict[str, str] = {}

    def tried(namespace: str, read: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return read()
        except (StateCorrupted, StateRegressed, WaveFailed) as error:
            unreadable.setdefault(namespace, error.message)
            return otherwise

    with closing(provider.open(name)) as storage:
        log = DecisionLog(storage, folder)
        nothing: Records = (None, None)
        stored, copied = tried(name, log.load, nothing)
        record_head = tried(name, storage.head, NamespaceHead())
    query_id = None
    if folder is not None and (copied is not None or folder.exists("metadata")):
        query_id = tried("", lambda: query_id_at(folder), "")
    # The namespaces of the records and their tasks, and all others with a prefix that is not empty.
    names = set(provider.namespaces(f"{prefix}:")) if prefix else set()
    for each in (stored, copied):
        if each is not None and each.topology in ("", topology):
            names |= known_namespaces(each, prefix)
    heads = {}
    for namespace in sorted(names - {name}):
        with closing(provider.open(namespace)) as storage:
            heads[namespace] = tried(namespace, storage.head, NamespaceHead())
    location = "" if folder is None else folder.location
    return TopologySnapshot(topology, name, record_head, stored, copied, query_id, location, heads, unreadable)


def known_namespaces(record: DecisionRecord, prefix: str) -> set[str]:
    """Return the namespaces that a record names, and the namespaces of its run's tasks."""
    tasks = {
        task_namespace(prefix, component, index)
        for component, count in record.parallelism.items()
        for index in range(count)
    }
    return tasks | set(record.namespaces)


@dataclass(frozen=True)
class NamespaceReport:
    namespace: str
    head: NamespaceHead
    problem: str = ""  # why the namespace cannot be read; empty if it can
    next_start: str = ""  # the action of the next start in this namespace; empty if it does nothing
    refusal: str = ""  # why this namespace makes the next start fail; empty if it does not
    is_known: bool = True  # whether the decision record, its copy, or a task of the last run names it
    keys: int | None = None  # number of entries; None if they were not counted
    size: int | None = None  # bytes of all keys and values; None if they were not counted


@dataclass(frozen=True)
class TopologyReport:
    """The state of a topology. `wrong_location` and the last four attributes hold sentences for an operator."""

    snapshot: TopologySnapshot
    wrong_location: str  # why the runs' checkpoint location is probably different; empty if there is no sign of this
    action: str  # of the next start: started, resumed, rolled back, rolled forward; or refused
    namespaces: tuple[NamespaceReport, ...]
    blocking: tuple[str, ...]  # the causes that block the open transaction; empty if no transaction is open
    next_start: tuple[str, ...]
    refusals: tuple[str, ...]
    notes: tuple[str, ...]


def explain(
    provider: StateProvider,
    topology: str,
    prefix: str,
    codecs: Codecs,
    folder: Folder,
    *,
    measure: bool = True,
    progress: Progress | None = None,
) -> TopologyReport:
    """Explain the state of a topology. Reads only. `measure` counts entries and bytes: this reads all entries.

    Raises `StateError` if the store has no namespace of the topology.
    """
    snapshot = read_topology(provider, topology, prefix, folder)
    is_empty = all(head == NamespaceHead() for head in (snapshot.record_head, *snapshot.heads.values()))
    if is_empty and not snapshot.unreadable and (snapshot.copied is None or snapshot.copied.topology != topology):
        there = sorted(prefix_of(name) or name for name in provider.namespaces() if is_record_namespace(name))
        raise StateError(
            f"{provider.describe()} has no state of topology {topology!r} (prefix of its namespaces: {prefix!r}). It "
            f"has the topologies: {', '.join(there) or '(none)'}. Give --conf with the file of the runs, and start the "
            "command where they are started.",
            namespace=snapshot.record_namespace,
        )
    sizes = {}
    for namespace, head in snapshot.heads.items() if measure else ():
        if head.codec != CUSTOM_HEADER and namespace not in snapshot.unreadable:
            with closing(provider.open(namespace)) as storage:
                sizes[namespace] = measured(storage, progress)
    return judge(snapshot, codecs, sizes)


def judge(snapshot: TopologySnapshot, codecs: Codecs, sizes: Mapping[str, tuple[int, int]]) -> TopologyReport:
    """Explain a snapshot; `sizes` has the numbers of keys and bytes of the counted namespaces. Pure."""
    record = snapshot.stored or DecisionRecord()
    prefix = prefix_of(snapshot.record_namespace)
    known = known_namespaces(record, prefix)
    named = known | known_namespaces(snapshot.copied or record, prefix)
    header = EntryEncoding("", codecs.keys, codecs.values).header
    heads = {name: head for name, head in snapshot.heads.items() if name in known}
    headers = {name: head.codec if head.codec == CUSTOM_HEADER else header for name, head in heads.items()}
    unreadable, problems = snapshot.unreadable, list[AnchorboltError]()
    if snapshot.record_namespace in unreadable:  # nothing can be judged
        named |= snapshot.heads.keys()
    else:
        layout = Layout(snapshot.topology, headers, batch_spout=record.batch_spout)
        problems += startup_problems(layout, snapshot.found(heads))
    # A start reads only named namespaces.
    unreadable = {name: why for name, why in unreadable.items() if name in named or name not in snapshot.heads}
    problems = [each for each in problems if not isinstance(each, StateError) or each.namespace not in unreadable]
    refusal_of = {each.namespace: each.message for each in reversed(problems) if isinstance(each, StateError)}
    refusals = list(dict.fromkeys([*unreadable.values(), *(each.message for each in problems)]))
    namespaces = []
    for name, head in snapshot.heads.items():
        refusal = unreadable.get(name) or refusal_of.get(name, "")
        next_start = "" if refusal or name not in known else _next_start(record, name, head)
        keys, size = sizes.get(name, (None, None))
        problem = snapshot.unreadable.get(name, "")
        namespaces.append(NamespaceReport(name, head, problem, next_start, refusal, name in named, keys, size))
    action = "refused"
    if not refusals:
        action = plan_recovery(snapshot.stored, snapshot.copied, heads).outcome(is_new=snapshot.stored is None)
    return TopologyReport(
        snapshot,
        _wrong_location(record, snapshot),
        action,
        tuple(namespaces),
        tuple(_blocking(record, namespaces)),
        tuple(_next_starts(record, snapshot, namespaces, refused=bool(refusals))),
        tuple(refusals),
        tuple(_notes(record, snapshot, namespaces)),
    )


def _wrong_location(record: DecisionRecord, snapshot: TopologySnapshot) -> str:
    if snapshot.query_id is None and record.query_id and snapshot.location:
        found = "is empty"
    elif snapshot.query_id and not is_of_query(record, snapshot.query_id):
        found = f"belongs to another streaming query, {snapshot.query_id}"
    else:
        return ""
    return (
        f"{snapshot.location} {found}, but the state was computed from streaming query {record.query_id}: this is "
        "probably not the checkpoint location of the runs. Give --conf with their file, and start the command where "
        "they are started; if fs.defaultFS of the runs is not the local disk, name the location by its URI. A start "
        "with this location is refused"
    )


def _next_start(record: DecisionRecord, name: str, head: NamespaceHead) -> str:
    verdict = judge_namespace(record, name, head)
    if verdict.winner is not None:
        return (
            f"txid {record.txid} is decided but not committed in {name}: the next start commits it "
            f"(attempt {verdict.winner.attempt})"
        )
    if verdict.has_leftovers:
        txids = ", ".join(str(txid) for txid in sorted({staged.txid for staged in head.attempts.values()}))
        count = len(head.attempts)
        return f"txid {txids} is staged in {name} without a decision: the next start drops its attempts ({count})"
    return ""


def _next_starts(
    record: DecisionRecord, snapshot: TopologySnapshot, namespaces: list[NamespaceReport], *, refused: bool
) -> list[str]:
    if refused:
        return ["the next start is refused, and writes nothing"]
    steps = [each.next_start for each in namespaces if each.next_start]
    if record.state.phase is Phase.COMMITTING and not any("commits it" in step for step in steps):
        steps.append(
            f"txid {record.txid} is decided, and every namespace has committed it: the next start marks it committed"
        )
    if record.state.phase is Phase.COMMITTING and record.outbox:
        steps.append(f"the next start publishes the rows that the sinks wrote in txid {record.txid}")
    if snapshot.stored is None:
        steps.append("the store has no decision record: the next start creates one")
    else:
        batch = f", batch {record.batch_id + 1} of its query" if record.query_id else ""
        steps.append(f"{'then it' if steps else 'it'} continues with txid {record.txid + 1}{batch}")
    return steps


def _blocking(record: DecisionRecord, namespaces: list[NamespaceReport]) -> list[str]:
    if record.state.phase is Phase.COMMITTING:
        late = [
            each.namespace
            for each in namespaces
            if each.namespace in record.winners and each.head.winner != record.winners[each.namespace].attempt
        ]
        if late:
            return [f"txid {record.txid} is decided and waits for the commit of {', '.join(late)}"]
        return [f"txid {record.txid} is committed in every namespace, but the decision record is not updated yet"]
    sentences = []
    for each in namespaces:
        for attempt, staged in each.head.attempts.items():
            how = "is sealed" if staged.seal is not None else "is staged but not sealed"
            sentences.append(f"txid {staged.txid} waits for its decision: attempt {attempt} {how} in {each.namespace}")
    idle = [each.namespace for each in namespaces if each.is_known and not (each.problem or each.head.attempts)]
    if sentences and idle:
        sentences.append(f"nothing is staged in {', '.join(idle)}: the task is still working, or has no updates")
    return sentences


def _shown_times(times: BoltTimes) -> str:
    parts = [] if times.watermark is None else [f"its watermark is {shown_time(times.watermark)}"]
    if times.watermark == LATEST_MS:
        parts = ["all its windows by event time were closed at the end of a run"]
    due = [each for each in times.due[:2] if each is not None]
    if due:
        parts.append(f"about {counted(times.waiting, 'timer')} set, the next for {shown_time(min(due))}")
    if times.due.expiry is not None:
        parts.append(f"entries expire, and are deleted from {shown_time(times.due.expiry)} on")
    return "; ".join(parts) or "no timer is set"


def _notes(record: DecisionRecord, snapshot: TopologySnapshot, namespaces: list[NamespaceReport]) -> list[str]:
    notes = []
    if record.batch:
        metadata = shortened(BatchMetadata.decode(record.batch).values(), _SHOWN_METADATA)
        notes.append(f"batch {record.txid} of its spout {record.batch_spout} has the metadata {metadata}")
    notes += [f"bolt {bolt!r}: {_shown_times(times)}" for bolt, times in record.times.items() if times != BoltTimes()]
    if snapshot.has_moved:
        notes.append("a run was writing during the reading: this report may be out of date")
    if snapshot.holds_fence:
        notes.append(
            f"generation {snapshot.generation} holds the fence: a run is alive, or was killed. A run that is alive "
            "may take the steps of the next start itself"
        )
    elif snapshot.generation:
        notes.append(f"generation {snapshot.generation} has ended and released the fence: no run is alive")
    if snapshot.query_id is None:
        notes.append(f"the checkpoint location {snapshot.location} is empty: this report uses the store alone")
    notes += [
        f"{each.namespace} belongs to a custom state, whose content Anchorbolt cannot read"
        for each in namespaces
        if each.head.codec == CUSTOM_HEADER
    ]
    notes += [
        f"{each.namespace} has the prefix, but neither the decision record nor a task of the last run names it. The "
        "next start ignores it, unless the job has such a task: then a start is refused if anything is committed there"
        for each in namespaces
        if not each.is_known
    ]
    return notes
