"""The checks of a copy: which sources and targets are refused, and why. Pure."""

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.recovery import plan_recovery
from anchorbolt.checkpoint.startup import startup_problems
from anchorbolt.checkpoint.state_machine import Action
from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools.copy.keys import rewriting
from anchorbolt.migration_tools.inspect.topology_snapshot import TopologySnapshot, known_namespaces
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import prefix_of


def source_namespaces(snapshot: TopologySnapshot) -> list[str]:
    """Return the namespaces to copy: those with committed data."""
    return [name for name, head in snapshot.heads.items() if head.committed != NOTHING_COMMITTED]


def check_source(snapshot: TopologySnapshot, source: StateProvider, *, with_custom_states: bool, taken: bool) -> None:
    """Raise `MigrationRefused` if a run is alive on the source, or the source is inconsistent.

    With `taken`, a run may hold the source's fence now, because the copy claims it.
    """
    place, topology = source.describe(), snapshot.topology
    for reason in snapshot.unreadable.values():
        raise MigrationRefused(f"{place} cannot be read completely: {reason}")
    if snapshot.stored is None:
        raise MigrationRefused(
            f"{place} has no decision record of topology {topology!r} ({snapshot.record_namespace}): nothing was "
            "changed. Check the name, the prefix and the store; anchorbolt state namespaces lists all namespaces."
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
    if plan.action is Action.COMMIT or (known.intersection(plan.leftovers) and not taken):
        raise MigrationRefused(
            f"a transaction of {topology!r} is open in {place}: start the topology there once and stop it; this closes "
            "the transaction. anchorbolt state explain shows the transaction."
        )
    custom = [name for name in source_namespaces(snapshot) if snapshot.heads[name].codec == CUSTOM_HEADER]
    if custom and not with_custom_states:
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
        raise MigrationRefused(f"{place} cannot be read: {reason} Copy to an empty store.")
    if foreign:
        raise MigrationRefused(
            f"{place} has other data in {', '.join(foreign)}: nothing was written. Copy to an empty store. If the data "
            "is from an earlier copy, and the source has continued since, delete it first."
        )
    if found.stored is None:
        return
    if found.stored != snapshot.stored:
        raise MigrationRefused(
            f"{place} has another decision record ({snapshot.record_namespace}, at txid {found.stored.txid}; the "
            f"record in {source.describe()} is at txid {snapshot.stored.txid if snapshot.stored else 'none'}): a run "
            "has used this state. Nothing was written. Copy to an empty store."
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
