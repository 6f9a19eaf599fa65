"""Copies a topology's state, or one namespace, from one provider to another, through the contract of `StateStorage`.

The copy only reads the source. A driver releases the fence of its decision record when it ends, so a released fence
shows that no run writes to the source. The copy reads all heads before and after, to confirm this.

On the target the copy works like a driver: it claims a generation, raises the fence in every namespace, then reads and
decides. So a killed copy can be run again, and if the killed process wakes up, it is fenced. Each namespace is staged,
sealed and committed under its own txid and winner. The decision record is written last, so that a start on an
unfinished copy is refused with `StateRegressed`, as for a store that lost data. The copy's generation is not below the
source's: the checkpoint location has one copy of the decision for each generation, and the run that continues at the
target must have the highest generation.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ, is_record_namespace, with_change
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.recovery import plan_recovery
from anchorbolt.checkpoint.startup import startup_problems
from anchorbolt.checkpoint.state_machine import Action, Phase
from anchorbolt.errors import ConfigError, MigrationRefused
from anchorbolt.maintenance.changes import change_record
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy_steps import CopiedNamespace, claimed, copied_namespace, moved, rewriting
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, known_namespaces, read_topology
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import prefix_of

__all__ = ["CopyReport", "copy_namespace", "copy_topology"]

_NAME_ANOTHER = "Name an empty store, such as another directory, database or table"


@dataclass(frozen=True)
class CopyReport:
    """The result of a copy, or of a dry run.

    Attributes:
        source: Description of the source.
        target: Description of the target.
        namespaces: The copied namespaces, in order.
        txid: The decision record's transaction; None if the record was not copied.
        generation: The generation that the copy claimed at the target; 0 if nothing was written.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    source: str
    target: str
    namespaces: tuple[CopiedNamespace, ...]
    txid: int | None
    generation: int
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "namespaces": [vars(each) for each in self.namespaces]}


def copy_topology(
    source: StateProvider,
    target: StateProvider,
    topology: str,
    prefix: str,
    *,
    take_fence: bool = False,
    with_custom_states: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    command: str = "copy",
) -> CopyReport:
    """Copy all namespaces of a topology and its decision record.

    A call after an interrupted copy finishes it; a call after a finished copy compares both sides.

    Args:
        source: The store to copy from. It is only read, except with `take_fence`.
        target: The store to copy to. It must have no state of the topology, except from an earlier copy.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        take_fence: Claim a new generation at the source first: a run that is alive ends with `Fenced` at its next
            wave, and a killed run no longer blocks the copy.
        with_custom_states: Also copy Anchorbolt's namespaces of custom states. The caller copies their content.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.
        command: What the history of the target calls it.

    Raises:
        MigrationRefused: A run is alive on the source, a transaction is open there, the source disagrees with its
            decision record, or it changed during the copy; the target has other data; or the copy is not equal.
        Fenced: Another copy, or a run, has taken over at the target.
        StateError: A store failed; see `StateStorage`.
    """
    _refuse_same(source, target)

    def checked() -> tuple[TopologySnapshot, TopologySnapshot]:
        snapshot = read_topology(source, topology, prefix)
        check_source(snapshot, source, with_custom_states=with_custom_states, taken=take_fence)
        found = read_topology(target, topology, prefix)
        check_target(found, snapshot, target, source)
        return snapshot, found

    snapshot, found = checked()
    if take_fence and not dry_run:
        with closing(source.open(snapshot.record_namespace)) as storage:
            storage.claim(RELEASED_SEQ)
        snapshot, found = checked()  # a wave may have been decided before the fence was taken
    assert snapshot.stored is not None, "check_source refuses a source without a record"
    sources = {name: snapshot.heads[name] for name in source_namespaces(snapshot)}
    listed = tuple(CopiedNamespace(name, head.committed, head.winner) for name, head in sources.items())
    report = CopyReport(source.describe(), target.describe(), listed, snapshot.stored.txid, 0, dry_run)
    if dry_run:
        return report
    is_complete = found.stored is not None
    fence, heads = found.record_head.fence, dict(found.heads)
    with closing(target.open(snapshot.record_namespace)) as record:
        if not is_complete:
            fence = claimed(record, snapshot.generation, RELEASED_SEQ)
            for name in sources:
                with closing(target.open(name)) as storage:
                    heads[name] = storage.raise_fence(fence)
            check_target(read_topology(target, topology, prefix), snapshot, target, source)
        copied = [
            copied_namespace(source, target, name, head, heads[name], fence, progress or Progress())
            for name, head in sources.items()
        ]
        # A copy that was read while a run was writing is not trusted.
        again = read_topology(source, topology, prefix)
        if (again.stored, again.record_head, again.heads) != (snapshot.stored, snapshot.record_head, snapshot.heads):
            raise moved(source, target, topology)
        if not is_complete:
            with closing(source.open(snapshot.record_namespace)) as storage:
                entries = dict(entry for page in storage.scan() for entry in page)
            counts = {each.namespace: each.entries or 0 for each in copied}
            change = change_record(command, fence.generation, snapshot.stored.txid, put=counts)
            entries = with_change(snapshot.record_namespace, entries, change)
            record.write(fence, entries, snapshot.record_head.codec)
    return replace(report, namespaces=tuple(copied), generation=0 if is_complete else fence.generation)


def copy_namespace(
    source: StateProvider,
    target: StateProvider,
    namespace: str,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy one namespace, to inspect or archive it. Without the decision record, no topology can be started on it.

    Raises:
        MigrationRefused: For the same reasons as `copy_topology`.
    """
    _refuse_same(source, target)
    prefix = prefix_of(namespace)
    if is_record_namespace(namespace):
        raise MigrationRefused(
            f"{namespace} holds the decision record of a topology. Copy the whole topology instead (copy_topology, or "
            "--topology)."
        )
    head = _head(source, namespace)
    _check_single(source, target, namespace, head, read_topology(source, prefix, prefix))
    found = _head(target, namespace)
    if not is_of_copy(found, head):
        raise MigrationRefused(
            f"{target.describe()} has other data in {namespace}: nothing was written. {_NAME_ANOTHER}."
        )
    listed = CopiedNamespace(namespace, head.committed, head.winner)
    report = CopyReport(source.describe(), target.describe(), (listed,), None, 0, dry_run)
    if dry_run:
        return report
    is_complete = found.committed != NOTHING_COMMITTED
    fence = found.fence
    if not is_complete:
        with closing(target.open(namespace)) as storage:
            fence = claimed(storage, head.fence.generation)
            found = storage.head()
    copied = copied_namespace(source, target, namespace, head, found, fence, progress or Progress())
    return replace(report, namespaces=(copied,), generation=0 if is_complete else fence.generation)


def _check_single(
    source: StateProvider, target: StateProvider, namespace: str, head: NamespaceHead, snapshot: TopologySnapshot
) -> None:
    if head.committed == NOTHING_COMMITTED:
        raise MigrationRefused(f"{namespace} in {source.describe()} has no committed data: nothing to copy.")
    if not head.winner:  # each committed wave has a winner
        raise MigrationRefused(
            f"{namespace} in {source.describe()} has transaction ids of Storm, and Anchorbolt cannot copy it. "
            "anchorbolt state scan --codec storm-kryo shows its entries."
        )
    if head.codec == CUSTOM_HEADER:
        raise MigrationRefused(f"{namespace} belongs to a custom state and has no entries: nothing to copy.")
    committing = snapshot.stored is not None and snapshot.stored.state.phase is not Phase.COMMITTED
    if head.attempts or committing or snapshot.holds_fence:
        raise MigrationRefused(
            f"a run is alive on {namespace} in {source.describe()}, or was killed. Stop it; start and stop it once if "
            "it was killed."
        )
    if _head(target, snapshot.record_namespace) != NamespaceHead():
        raise MigrationRefused(
            f"{target.describe()} has the decision record {snapshot.record_namespace}, and a copied {namespace} "
            "would prevent a start of its topology. Copy to another store."
        )


def _head(provider: StateProvider, namespace: str) -> NamespaceHead:
    with closing(provider.open(namespace)) as storage:
        return storage.head()


def _refuse_same(source: StateProvider, target: StateProvider) -> None:
    if source == target:
        raise ConfigError(f"source and target are the same: {source.describe()}. Name another target.")


def source_namespaces(snapshot: TopologySnapshot) -> list[str]:
    """Return the namespaces to copy: those with committed data."""
    return [name for name, head in snapshot.heads.items() if head.committed != NOTHING_COMMITTED]


def check_source(
    snapshot: TopologySnapshot, source: StateProvider, *, with_custom_states: bool, taken: bool, writes: bool = False
) -> None:
    """Raise `MigrationRefused` if a run is alive on the source, or the source is inconsistent.

    With `taken`, a run may hold the source's fence now, because the command claims it. If the command `writes` there,
    attempts that nobody has decided do not matter.
    """
    place, topology = source.describe(), snapshot.topology
    for reason in snapshot.unreadable.values():
        raise MigrationRefused(f"{place} cannot be read completely: {reason}")
    if snapshot.stored is None:
        raise MigrationRefused(
            f"{place} has no decision record of topology {topology!r} ({snapshot.record_namespace}): nothing was "
            "changed. Check the name, the prefix and the store (--conf); anchorbolt state ls lists the topologies."
        )
    if snapshot.has_moved:
        raise MigrationRefused(f"a run of {topology!r} is writing to {place}: stop it first.")
    if snapshot.holds_fence and not taken:
        raise MigrationRefused(
            f"generation {snapshot.generation} of {topology!r} holds the fence in {place}: a run is "
            "alive, or was killed. Stop it; if it was killed, start and stop it once. Or take its fence with "
            "--take-fence: a run that is alive then ends with Fenced at its next wave."
        )
    headers = {name: head.codec for name, head in snapshot.heads.items()}
    layout = Layout(topology, headers, batch_spout=snapshot.stored.batch_spout)
    for problem in startup_problems(layout, snapshot.found(snapshot.heads)):
        raise MigrationRefused(
            f"{place} does not agree with its decision record, so nothing was changed: {problem.message}"
        ) from problem
    plan = plan_recovery(snapshot.stored, None, snapshot.heads)
    # If the record says COMMITTED, staged attempts are undecided, and stay undecided once their driver is fenced.
    # An interrupted rename leaves attempts in namespaces outside the topology: nothing depends on them.
    known = known_namespaces(snapshot.stored, prefix_of(snapshot.record_namespace))
    if plan.action is Action.COMMIT or (known.intersection(plan.leftovers) and not (taken or writes)):
        raise MigrationRefused(
            f"a transaction of {topology!r} is open in {place}: start the topology there once and stop it; this closes "
            "the transaction. anchorbolt state explain shows the transaction."
        )
    if not with_custom_states:
        refuse_custom_states({name: snapshot.heads[name] for name in source_namespaces(snapshot)})


def refuse_custom_states(heads: Mapping[str, NamespaceHead]) -> None:
    """Raise `MigrationRefused` if one of these namespaces belongs to a custom state."""
    if custom := [name for name, head in heads.items() if head.codec == CUSTOM_HEADER]:
        raise MigrationRefused(
            f"{', '.join(custom)}: Anchorbolt cannot copy the content of a custom state. Copy it yourself while no run "
            "is alive, and use --with-custom-states."
        )


def check_target(
    found: TopologySnapshot, snapshot: TopologySnapshot, target: StateProvider, source: StateProvider
) -> None:
    """Raise `MigrationRefused` if the target has state of the topology that is not from a copy of this source."""
    place = target.describe()
    foreign = [
        name for name, head in found.heads.items() if not is_of_copy(head, snapshot.heads.get(name, NamespaceHead()))
    ]
    for reason in found.unreadable.values():
        raise MigrationRefused(f"{place} cannot be read: {reason} {_NAME_ANOTHER}.")
    if foreign:
        raise MigrationRefused(
            f"{place} has other data in {', '.join(foreign)}: nothing was written. {_NAME_ANOTHER}. If the "
            "data is from an earlier copy or restore that is not needed, delete it first."
        )
    if found.stored is None:
        return
    if found.stored != snapshot.stored:
        raise MigrationRefused(
            f"{place} has another decision record ({snapshot.record_namespace}, at txid {found.stored.txid}; the "
            f"record in {source.describe()} is at txid {snapshot.stored.txid if snapshot.stored else 'none'}): a run "
            f"has used this state. Nothing was written. {_NAME_ANOTHER}."
        )
    missing = [
        name
        for name in source_namespaces(snapshot)
        if name not in found.heads or found.heads[name].committed != snapshot.heads[name].committed
    ]
    if missing:
        raise MigrationRefused(
            f"{place} has the decision record of this source, but {', '.join(missing)} is missing: it lost data. Copy "
            "to an empty store."
        )


def is_of_copy(found: NamespaceHead, head: NamespaceHead) -> bool:
    """Whether a namespace of the target is empty, or a complete or interrupted copy of `head`."""
    if found.committed == NOTHING_COMMITTED:
        return all((name, staged.txid) == (head.winner, head.committed) for name, staged in found.attempts.items())
    codecs = (head.codec, rewriting("", head.codec).header)
    return (found.committed, found.winner) == (head.committed, head.winner) and found.codec in codecs
