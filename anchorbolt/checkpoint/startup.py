"""Lists the reasons to refuse a start that the records and the heads show. Pure.

A start raises the first; `anchorbolt state explain` shows all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from anchorbolt.bolts.column_types import is_readable_as, read_schema
from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.recovery import agreed_record, is_of_query, judge_namespace
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import AnchorboltError, CodecMismatch, QueryChanged, StateRegressed, TopologyError
from anchorbolt.state_backends.contract import NamespaceHead, regressed
from anchorbolt.state_backends.encoding import older_header
from anchorbolt.streams.declaration import ACKER_ID


@dataclass(frozen=True)
class Found:
    """The input of the checks: the record, its copy, the query at the checkpoint location, and the heads."""

    stored: DecisionRecord | None  # the decision record in the store
    copied: DecisionRecord | None  # its copy at the checkpoint location
    query_id: str | None  # of the checkpoint location: empty if it is new, None to skip its check
    heads: Mapping[str, NamespaceHead] = field(default_factory=dict)
    record_namespace: str = ""
    generation: int = 0  # of the record's namespace, read after `heads`


def startup_problems(layout: Layout, found: Found, *, accept_new: bool = False) -> Iterator[AnchorboltError]:
    """Yield every reason to refuse the start of a topology, first from the records, then from the namespaces."""
    yield from record_problems(layout, found, accept_new=accept_new)
    yield from namespace_problems(layout, found)


def record_problems(layout: Layout, found: Found, *, accept_new: bool) -> Iterator[AnchorboltError]:
    """Yield the reasons from the two records and the checkpoint location."""
    for each, where in ((found.stored, "state store"), (found.copied, "checkpoint location")):
        if each is not None and each.topology not in ("", layout.topology):
            yield QueryChanged(
                f"the {where} belongs to topology {each.topology!r}, but {layout.topology!r} was submitted. Nothing "
                "was changed. Give each topology a checkpoint location, and a namespace prefix, of its own."
            )
    record = found.stored or found.copied or DecisionRecord()
    if record.topology and record.batch_spout != layout.batch_spout:
        yield TopologyError(_other_kind(layout, record))
    if found.query_id is not None and not accept_new:
        if found.stored is None and found.copied is None and found.query_id:
            yield QueryChanged(
                f"the checkpoint location belongs to streaming query {found.query_id}, but the state store does not "
                "know that query: the source would not be read from its start. Nothing was changed. Use a new "
                "checkpoint location. To continue where that query is, set topology.checkpoint.accept.new.query to "
                "true for one run."
            )
        elif (changed := query_problem(record, found.query_id)) is not None:
            yield changed
    for component, columns in layout.columns.items():
        declared, written = read_schema(columns, component), read_schema(record.schemas.get(component, b""), component)
        for column in declared:
            old = written.field(column.name).type if column.name in written.names else column.type
            if not is_readable_as(old, column.type):
                yield TopologyError(
                    f"sink {component!r} declares the field {column.name!r} as {column.type}, but it has written it as "
                    f"{old}, and Spark cannot read such files as {column.type}. Nothing was changed. Declare "
                    f"{old} or a wider type of its kind. Or give the new type a field of another name, or the sink "
                    "another id and another place.",
                    component=component,
                )
    for component, tasks in layout.parallelism.items():
        before = record.parallelism.get(component, tasks)
        # Open trees move in the first wave.
        if before != tasks and record.namespaces and component != ACKER_ID and not layout.rescales:
            yield TopologyError(
                f"bolt {component!r} has parallelism {tasks}, but its state was written by {before} tasks, and each "
                f"task holds the keys that are grouped to it. Set its parallelism back to {before}. Or move the keys "
                f"to their new tasks: anchorbolt state rescale {layout.topology} {component}={tasks}, or "
                "topology.state.rescale: true.",
                component=component,
            )


def committer_problems(record: DecisionRecord, committers: Mapping[str, int]) -> Iterator[AnchorboltError]:
    """Yield the reasons not to retry a batch that an earlier run may have begun to commit.

    The journal of a committer's task names the keys that this task has updated. With another number of tasks, a key may
    belong to another task. Before the first commit, it is unknown which committers have a journal.
    """
    for component, tasks in committers.items():
        before = record.committers.get(component, tasks)
        if before != tasks and (component in record.journals or not record.batch):
            yield TopologyError(
                f"committer {component!r} has parallelism {tasks}, but {before} tasks may have begun to commit batch "
                f"{record.txid + 1} in an earlier run, and the journals of its OpaqueMap belong to these tasks. Set "
                f"its parallelism back to {before}, and change it when a run has ended as FINISHED or STOPPED.",
                component=component,
            )


def _other_kind(layout: Layout, record: DecisionRecord) -> str:
    def shown(spout: str) -> str:
        return f"a transactional topology with the spout {spout}" if spout else "an ordinary topology"

    return (
        f"the id {layout.topology!r} is in use by {shown(record.batch_spout)}, which has progress stored under it; "
        f"{shown(layout.batch_spout)} was submitted. Nothing was changed. Give it an id of its own."
    )


def query_problem(record: DecisionRecord, query_id: str) -> QueryChanged | None:
    """Return the refusal if the state was computed from another streaming query."""
    if is_of_query(record, query_id):
        return None
    place = f"belongs to query {query_id}" if query_id else "is a new one"
    sinks = sorted({repr(file.component) for file in record.outbox})
    waiting = ""
    if sinks and record.state.phase is Phase.COMMITTING:
        waiting = (
            f" Rows of txid {record.txid} for {', '.join(sinks)} wait there to be published; if they are gone, the "
            "run continues without them."
        )
    return QueryChanged(
        f"the state was computed from streaming query {record.query_id}, up to its batch {record.batch_id}, but "
        f"this run's checkpoint location {place}. The checkpoint location was deleted or "
        "changed, so the source would be read again from its start and counted twice. Set "
        "topology.checkpoint.location back to where it was. To continue all the same, with the state as it is, set "
        f"topology.checkpoint.accept.new.query to true for one run.{waiting}"
    )


def namespace_problems(layout: Layout, found: Found) -> Iterator[AnchorboltError]:
    """Yield the reasons from the namespaces."""
    try:
        record = agreed_record(found.stored, found.copied)
    except StateRegressed as problem:
        yield problem
        record = found.stored or DecisionRecord()
    for namespace in sorted({*found.heads, *record.namespaces}):
        head = found.heads.get(namespace, NamespaceHead())
        try:
            verdict = judge_namespace(record, namespace, head)
        except StateRegressed as problem:
            yield problem
            continue
        if verdict.winner is not None and head.codec == CUSTOM_HEADER and namespace not in layout.headers:
            yield TopologyError(
                f"the decided txid {record.txid} changes the custom state {namespace!r}, but the topology no longer "
                "has its bolt. Start it once more with that bolt, so that the state is committed."
            )
    for component, version in layout.schema_versions.items():
        written = record.state_schemas.get(component, version)
        if written > version:
            yield CodecMismatch(
                f"bolt {component!r} has state_schema_version {version}, but its state was written under version "
                f"{written}. Nothing was written. Run the job that wrote it, or a later one."
            )
    for namespace, header in layout.headers.items():
        written_as = found.heads[namespace].codec
        if written_as and written_as not in (header, older_header(header)):
            is_custom = CUSTOM_HEADER in (written_as, header)
            keys = "topology.state.provider" if is_custom else "keySerializerClass and valueSerializerClass"
            yield CodecMismatch(
                f"state {namespace!r} was written as {written_as!r}, but the configuration says {header!r}. Set "
                f"{keys} back to what wrote it.",
                namespace=namespace,
            )
    # The record's namespace is claimed first, so no other namespace may know a later generation.
    for namespace, head in found.heads.items():
        if head.fence.generation > found.generation:
            expected = f"generation {head.fence.generation}, which has written in namespace {namespace!r}"
            yield regressed(found.record_namespace, expected, f"generation {found.generation}")
