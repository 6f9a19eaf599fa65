"""Finds the entries of a stateful bolt's keys in the namespaces of its tasks."""

from collections.abc import Sequence
from contextlib import closing

from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.errors import StateError
from anchorbolt.migration_tools.inspect.decoding import Codecs, Entry, key_from_text
from anchorbolt.migration_tools.inspect.inspection import get_entries
from anchorbolt.migration_tools.inspect.topology_snapshot import record_namespace
from anchorbolt.state_backends.contract import NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import is_namespace, task_namespace
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.util.messages import did_you_mean


def is_stored_namespace(provider: StateProvider, name: str) -> bool:
    if not is_namespace(name):
        return False
    with closing(provider.open(name)) as storage:
        return storage.head() != NamespaceHead()


def get_component_entries(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    keys: Sequence[str],
    codecs: Codecs,
    *,
    hexadecimal: bool = False,
) -> tuple[tuple[str, ...], list[tuple[str, Entry]]]:
    """Return notes on decoding problems, and namespace and entry of each key. The arguments are as in `get_entries`.

    Each key is looked up in the task to which fields grouping sends it, and if it is absent there, in the other tasks.
    Raises `StateError` if the store has no such topology or stateful bolt.
    """
    with closing(provider.open(record_namespace(prefix))) as storage:
        record, _ = DecisionLog(storage).load()
    known = {} if record is None else record.parallelism
    if component not in known:
        what = f"the stateful bolts {', '.join(known)}" if known else "no state of this topology"
        raise StateError(
            f"there is no stateful bolt {component!r} of topology {topology!r} in {provider.describe()}, which has "
            f"{what}.{did_you_mean(component, known)}",
            namespace=record_namespace(prefix),
        )
    count = known[component]
    first = [0 if hexadecimal else destination_of(stable_hash(key_from_text(key)), count) for key in keys]
    found: dict[int, tuple[str, Entry]] = {}
    notes: dict[str, None] = {}
    for step in range(count):
        absent = [place for place in range(len(keys)) if place not in found or found[place][1].value is None]
        for task in sorted({(first[place] + step) % count for place in absent}):
            places = [place for place in absent if (first[place] + step) % count == task]
            namespace = task_namespace(prefix, component, task)
            wanted = [keys[place] for place in places]
            more, entries = get_entries(provider, namespace, wanted, codecs, hexadecimal=hexadecimal)
            notes.update(dict.fromkeys(more))
            found.update((place, (namespace, entry)) for place, entry in zip(places, entries, strict=True))
    return tuple(notes), [found[place] for place in range(len(keys))]
