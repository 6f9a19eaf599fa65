"""Copies a topology's state, or one namespace, from one provider to another, through the contract of `StateStorage`.

The source is only read. That no run writes to it meanwhile is known from its decision record's fence, which a driver
releases when it ends; reading everything before and after the copy confirms it.

On the target the copy behaves as a driver does: it claims a generation, raises the fence in every namespace, then reads
and decides. So a copy that was killed can be run again, and the killed one, should it wake up, is fenced off. Each
namespace is staged, sealed and committed under its own txid and winner; the decision record comes last, so that a start
on a half-made copy is refused as on a store that lost data (`StateRegressed`). The generation of the copy is that of
the source or above it: the copies of decisions at the checkpoint location are told apart by generation, and the run
that goes on at the target must come after all of them.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import ConfigError, MigrationRefused
from anchorbolt.migration_tools.copy.checks import (
    check_source,
    check_target,
    is_of_copy,
    source_namespaces,
)
from anchorbolt.migration_tools.copy.steps import CopiedNamespace, claimed, copied_namespace, moved, raised
from anchorbolt.migration_tools.inspect.topology_snapshot import (
    TopologySnapshot,
    read_topology,
    record_namespace,
)
from anchorbolt.migration_tools.progress import Progress, Silent
from anchorbolt.state_backends.contract import (
    NOTHING_COMMITTED,
    Fence,
    NamespaceHead,
    StateProvider,
    StateStorage,
)


@dataclass(frozen=True)
class CopyReport:
    """What was copied, or, in a dry run, would be.

    Attributes:
        source: Where from.
        target: Where to.
        namespaces: The namespaces, in order.
        txid: The decision record's transaction; None where it was not copied.
        generation: The generation that the copy claimed at the target; 0 where nothing was written.
        is_dry_run: Whether nothing was written.
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
) -> CopyReport:
    """Copy all namespaces of a topology and its decision record.

    Run again after it was cut off, it finishes; run again after it finished, it compares.

    Args:
        source: The store to copy from. Only read, but for `take_fence`.
        target: The store to copy to. It must hold nothing of the topology but what an earlier copy put there.
        topology: Name of the topology.
        prefix: What its namespaces' names begin with, before the colon; empty for nothing.
        take_fence: Claim a new generation at the source first: a run that is alive ends with `Fenced` at its next wave,
            and one that was killed no longer stands in the way.
        with_custom_states: Copy what Anchorbolt keeps beside custom states, too; the states are the caller's to copy.
        dry_run: Check all that can be checked, and write nothing anywhere.
        progress: Told of each page.

    Raises:
        MigrationRefused: A run is alive on the source, a transaction is open there, it is not where its record says, or
            it moved meanwhile; the target holds something else; or what was copied is not equal.
        Fenced: Another copy, or a run, has taken over at the target.
        StateError: A store failed; see `StateStorage`.
    """
    _refuse_same(source, target)
    snapshot = check_source(
        read_topology(source, topology, prefix),
        source,
        with_custom_states=with_custom_states,
        taken=take_fence,
    )
    check_target(read_topology(target, topology, prefix), snapshot, target, source)
    if take_fence and not dry_run:
        with closing(source.open(snapshot.record_namespace)) as storage:
            _let_go(storage, storage.claim())
        # A wave may have been decided before the fence was taken.
        snapshot = check_source(
            read_topology(source, topology, prefix), source, with_custom_states=with_custom_states, taken=True
        )
    names = source_namespaces(snapshot)
    assert snapshot.stored is not None, "check_source refuses a source without a record"
    if dry_run:
        listed = tuple(
            CopiedNamespace(name, snapshot.heads[name].committed, snapshot.heads[name].winner)
            for name in names
        )
        return CopyReport(source.describe(), target.describe(), listed, snapshot.stored.txid, 0, True)
    found = read_topology(target, topology, prefix)
    is_complete = found.stored is not None
    with ExitStack() as opened:
        if is_complete:
            fence = found.record_head.fence
            heads = {name: found.heads.get(name, NamespaceHead()) for name in names}
        else:
            record = opened.enter_context(closing(target.open(snapshot.record_namespace)))
            fence = claimed(record, snapshot.record_head.fence.generation)
            heads = {name: raised(target, name, fence) for name in names}
            check_target(read_topology(target, topology, prefix), snapshot, target, source)
        copied = [
            copied_namespace(
                source, target, name, snapshot.heads[name], heads[name], fence, progress or Silent()
            )
            for name in names
        ]
        # Nothing is believed that was read while a run wrote.
        again = read_topology(source, topology, prefix)
        if (again.stored, again.record_head, again.heads) != (
            snapshot.stored,
            snapshot.record_head,
            snapshot.heads,
        ):
            raise moved(source, target, topology)
        if not is_complete:
            with closing(source.open(snapshot.record_namespace)) as storage:
                entries = dict(entry for page in storage.scan() for entry in page)
            record.write(fence, entries, snapshot.record_head.codec)
            _let_go(record, fence)
    return CopyReport(
        source.describe(),
        target.describe(),
        tuple(copied),
        snapshot.stored.txid,
        0 if is_complete else fence.generation,
        False,
    )


def copy_namespace(
    source: StateProvider,
    target: StateProvider,
    namespace: str,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy one namespace, to look into it or to keep it: no topology can be started on it without its decision record.

    Raises:
        As `copy_topology`.
    """
    _refuse_same(source, target)
    prefix = namespace.rpartition(":")[0]
    if namespace == record_namespace(prefix):
        raise MigrationRefused(
            f"{namespace} holds a decision record, which says where the namespaces beside it stand: copy it together "
            "with them, by naming the topology."
        )
    snapshot = read_topology(source, prefix, prefix)
    with closing(source.open(namespace)) as storage:
        head = storage.head()
    _check_single(source, target, namespace, head, snapshot)
    with closing(target.open(namespace)) as storage:
        found = storage.head()
    if found != NamespaceHead() and not is_of_copy(found, head):
        raise MigrationRefused(
            f"{target.describe()} holds something else as {namespace}: nothing was written. Copy to an empty one."
        )
    report = CopyReport(
        source.describe(),
        target.describe(),
        (CopiedNamespace(namespace, head.committed, head.winner),),
        None,
        0,
        dry_run,
    )
    if dry_run:
        return report
    is_complete = found.committed != NOTHING_COMMITTED
    with closing(target.open(namespace)) as storage:
        fence = found.fence if is_complete else claimed(storage, head.fence.generation)
        found = storage.head()
    copied = copied_namespace(source, target, namespace, head, found, fence, progress or Silent())
    with closing(source.open(namespace)) as storage:
        if storage.head() != head:
            raise moved(source, target, namespace)
    return CopyReport(
        report.source, report.target, (copied,), None, 0 if is_complete else fence.generation, False
    )


def _check_single(
    source: StateProvider,
    target: StateProvider,
    namespace: str,
    head: NamespaceHead,
    snapshot: TopologySnapshot,
) -> None:
    if head.committed == NOTHING_COMMITTED:
        raise MigrationRefused(
            f"nothing is committed in {namespace} in {source.describe()}: nothing to copy."
        )
    if not head.winner:  # each wave of ours has one
        raise MigrationRefused(
            f"{namespace} in {source.describe()} was not written by Anchorbolt: by its transaction ids it is Storm's. "
            "anchorbolt state scan --codec storm-kryo shows what it holds; it cannot be taken over."
        )
    if head.codec == CUSTOM_HEADER:
        raise MigrationRefused(
            f"{namespace} stands beside a custom state and holds no entries: nothing to copy."
        )
    committing = snapshot.stored is not None and snapshot.stored.state.phase is not Phase.COMMITTED
    if head.attempts or committing or snapshot.holds_fence:
        raise MigrationRefused(
            f"a run is alive on {namespace} in {source.describe()}, or was killed. Stop it; start and stop it once if "
            "it was killed."
        )
    with closing(target.open(snapshot.record_namespace)) as storage:
        if storage.head() != NamespaceHead():
            raise MigrationRefused(
                f"{target.describe()} holds the decision record {snapshot.record_namespace}, whose topology could not "
                f"be started beside a foreign {namespace}. Copy to another place."
            )


def _refuse_same(source: StateProvider, target: StateProvider) -> None:
    if source == target:
        raise ConfigError(f"source and target are the same: {source.describe()}. Name another target.")


def _let_go(storage: StateStorage, fence: Fence) -> None:
    """Say that whoever claimed `fence` writes no more."""
    storage.raise_fence(Fence(fence.generation, RELEASED_SEQ))
