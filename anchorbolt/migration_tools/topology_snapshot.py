"""Reads a topology's decision record, its copy, and the heads of all namespaces, without raising a fence."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ, DecisionLog, Records, query_id_at, record_namespace
from anchorbolt.checkpoint.startup import Found
from anchorbolt.errors import StateCorrupted, StateRegressed, WaveFailed
from anchorbolt.files import Folder
from anchorbolt.state_backends.contract import NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import task_namespace

_T = TypeVar("_T")
_ATTEMPTS = 3


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
