"""Lists the topologies in a store, with the sizes and the ages of their states. Reads only; no fence is raised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.decision_log import DecisionLog, is_record_namespace, record_namespace
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import StateCorrupted, StateRegressed
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import NamespaceSummary, namespace_summaries
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, known_namespaces
from anchorbolt.observe.history.records import decoded
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.rules import prefix_of


@dataclass(frozen=True)
class StoredTopology:
    """One topology in a store, or namespaces with one prefix that have no decision record.

    Attributes:
        topology: Its name; empty without a decision record.
        prefix: The prefix of its namespaces, without the colon; may be empty.
        namespaces: Their number, with that of the decision record.
        entries: The number of entries of its bolts; None if it is not known.
        size: The bytes of all of its namespaces; None if they are not known.
        txid: The last committed transaction; None without a decision record.
        committed_at: When it was committed, in ms since 1970; None if this is not known.
        generation: The last generation that a driver or a command has claimed.
        holds_fence: Whether this driver has not released its fence: it is alive, or was killed.
        left_over: Namespaces that neither the decision record nor a task of the last run names.
        problems: Why namespaces cannot be read.
    """

    topology: str
    prefix: str
    namespaces: int
    entries: int | None
    size: int | None
    txid: int | None
    committed_at: int | None
    generation: int
    holds_fence: bool
    left_over: tuple[str, ...]
    problems: tuple[str, ...]

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


def stored_topologies(
    provider: StateProvider, *, count: bool = False, progress: Progress | None = None
) -> list[StoredTopology]:
    """Return the topologies in a store, by prefix.

    Numbers and sizes are those that the store knows. With `count`, all entries are read to count them.
    """
    by_prefix = defaultdict[str, list[NamespaceSummary]](list)
    for each in namespace_summaries(provider, count=count, measure=True, progress=progress):
        by_prefix[prefix_of(each.namespace)].append(each)
    return [_topology(provider, prefix, found) for prefix, found in sorted(by_prefix.items())]


def _topology(provider: StateProvider, prefix: str, summaries: Sequence[NamespaceSummary]) -> StoredTopology:
    name, problems = record_namespace(prefix), [each.problem for each in summaries if each.problem]
    snapshot, changes = TopologySnapshot("", name), list[str]()
    with closing(provider.open(name)) as storage:
        try:
            log = DecisionLog(storage)
            stored, changes = log.load()[0], log.changes()
            snapshot = TopologySnapshot("", name, storage.head(), stored)
        except (StateCorrupted, StateRegressed) as error:
            problems.append(error.message)
    record = snapshot.stored
    known = set() if record is None else known_namespaces(record, prefix) | {name}
    of_bolts = [each for each in summaries if not is_record_namespace(each.namespace)]
    txid = committed_at = None
    if record is not None:
        txid = record.txid - (record.state.phase is not Phase.COMMITTED)
        times = [each.at for each in decoded(map(str.encode, changes)) if each.txid == record.txid]
        committed_at = max([record.clock, *(round(at * 1000) for at in times)]) or None
    return StoredTopology(
        "" if record is None else record.topology,
        prefix,
        len(summaries),
        _sum([each.keys for each in of_bolts]),
        _sum([each.size for each in summaries]),
        txid,
        committed_at,
        snapshot.generation,
        snapshot.holds_fence,
        tuple(each.namespace for each in summaries if each.namespace not in known),
        tuple(dict.fromkeys(problems)),
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else sum(number or 0 for number in numbers)
