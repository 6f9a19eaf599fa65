"""The store that a `LocalCluster` keeps in memory, for tests that read it, damage it or put it back."""

from typing import Any

from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.state_backends.contract import NamespaceHead
from anchorbolt.state_backends.memory import MemoryStateProvider


def memory_of(cluster: LocalCluster) -> MemoryStateProvider:
    return cluster._memory


def spaces_of(store: LocalCluster | MemoryStateProvider) -> dict[str, Any]:
    """Return the namespaces by name, with `metadata`, `entries` and `records`; the store itself, not a copy."""
    return (memory_of(store) if isinstance(store, LocalCluster) else store)._namespaces


def heads_of(cluster: LocalCluster) -> dict[str, NamespaceHead]:
    memory = memory_of(cluster)
    return {name: memory.open(name).head() for name in memory.namespaces()}


def contents_of(cluster: LocalCluster) -> dict[str, tuple[Any, dict[bytes, bytes]]]:
    """Return a copy of the bookkeeping and the committed entries of each namespace."""
    return {name: (space.metadata, dict(space.entries)) for name, space in spaces_of(cluster).items()}
