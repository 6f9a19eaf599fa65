"""What a copy of a topology refuses, and why. Pure: judges what was read, reads and writes nothing."""

from __future__ import annotations

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.recovery import plan_recovery
from anchorbolt.checkpoint.startup_checks import Expected, Found, startup_problems
from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools.inspect.topology_snapshot import TopologySnapshot
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, NamespaceHead, StateProvider


def source_namespaces(snapshot: TopologySnapshot) -> list[str]:
    """Return the namespaces to copy: those in which something was ever committed."""
    return [name for name, head in snapshot.heads.items() if head.committed != NOTHING_COMMITTED]


def check_source(
    snapshot: TopologySnapshot, source: StateProvider, *, with_custom_states: bool, taken: bool
) -> TopologySnapshot:
    """Refuse a source that a run is alive on, or that is not whole; `taken` if its fence is taken from whoever has it.

    Raises:
        MigrationRefused: Why it cannot be copied.
    """
    place, topology = source.describe(), snapshot.topology
    if snapshot.problems:
        raise MigrationRefused(f"{place} cannot be read as a whole: {snapshot.problems[0]}")
    if snapshot.stored is None:
        raise MigrationRefused(
            f"{place} holds no decision record of topology {topology!r} ({snapshot.record_namespace}): nothing was "
            "copied. Check the name, the prefix and the store; anchorbolt state namespaces lists what there is."
        )
    if snapshot.has_moved:
        raise MigrationRefused(f"a run of {topology!r} is writing to {place}: stop it, and copy then.")
    if snapshot.holds_fence and not taken:
        raise MigrationRefused(
            f"generation {snapshot.record_head.fence.generation} of {topology!r} holds the fence in {place}: a run is "
            "alive, or was killed. Stop it; if it was killed, start and stop it once. Or take the fence from it with "
            "--take-fence: a run that is alive then ends with Fenced at its next wave."
        )
    generation = snapshot.record_head.fence.generation
    found = Found(snapshot.stored, None, None, snapshot.heads, snapshot.record_namespace, generation)
    headers = {name: CUSTOM_HEADER for name, head in snapshot.heads.items() if head.codec == CUSTOM_HEADER}
    for problem in startup_problems(Expected(topology, headers), found):
        raise MigrationRefused(
            f"{place} is not where its decision record says, and is not copied: {problem.message}"
        ) from problem
    plan = plan_recovery(snapshot.stored, None, snapshot.heads)
    # What is staged beside a record that says COMMITTED was never decided, and, its driver fenced off, never will be.
    if plan.action is Action.COMMIT or (plan.leftovers and not taken):
        raise MigrationRefused(
            f"a transaction of {topology!r} is open in {place}: start the topology there and stop it once, which "
            "closes it. anchorbolt state explain says where it stands."
        )
    custom = [name for name in source_namespaces(snapshot) if snapshot.heads[name].codec == CUSTOM_HEADER]
    if custom and not with_custom_states:
        raise MigrationRefused(
            f"{', '.join(custom)}: beside a custom state, whose content Anchorbolt cannot copy. Copy it yourself while "
            "no run is alive, and give --with-custom-states."
        )
    return snapshot


def check_target(
    found: TopologySnapshot, snapshot: TopologySnapshot, target: StateProvider, source: StateProvider
) -> None:
    """Refuse a target that holds anything of the topology but what a copy of this source put there.

    Raises:
        MigrationRefused: It does.
    """
    place = target.describe()
    foreign = [
        name
        for name, head in found.heads.items()
        if not is_of_copy(head, snapshot.heads.get(name, NamespaceHead()))
    ]
    if found.problems:
        raise MigrationRefused(f"{place} cannot be read: {found.problems[0]} Copy to an empty place.")
    if foreign:
        raise MigrationRefused(
            f"{place} holds something else as {', '.join(foreign)}: nothing was written. Copy to an empty place; if "
            "this is left of an earlier copy, from before the source went on, delete it there first."
        )
    if found.stored is not None and found.stored != snapshot.stored:
        raise MigrationRefused(
            f"{place} has a decision record of its own ({snapshot.record_namespace}, at txid {found.stored.txid}; the "
            f"one in {source.describe()} is at txid {snapshot.stored.txid if snapshot.stored else 'none'}): a run has "
            "used it. Nothing was written. Copy to an empty place."
        )
    missing = [
        name
        for name in source_namespaces(snapshot)
        if found.stored is not None
        and found.heads.get(name, NamespaceHead()).committed != snapshot.heads[name].committed
    ]
    if missing:
        raise MigrationRefused(
            f"{place} has the decision record of this source, but {', '.join(missing)} is missing: it lost data. Copy "
            "to an empty place."
        )


def is_of_copy(found: NamespaceHead, head: NamespaceHead) -> bool:
    """Whether a namespace of the target is empty, or what a copy of `head` leaves there, at whatever moment."""
    if found.committed == NOTHING_COMMITTED:
        return all(
            (name, staged.txid) == (head.winner, head.committed) for name, staged in found.attempts.items()
        )
    return (found.committed, found.winner, found.codec) == (head.committed, head.winner, head.codec)
