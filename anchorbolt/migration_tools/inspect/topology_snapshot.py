"""What is to be read of a topology's state, without raising a fence: its decision record, its copy, and all heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import CHECKPOINT_SPOUT_ID, RELEASED_SEQ, DecisionCopy, DecisionLog
from anchorbolt.checkpoint.location import FolderCopy, query_id_at
from anchorbolt.checkpoint.ports import NoRetry
from anchorbolt.errors import StateCorrupted, WaveFailed
from anchorbolt.state_backends.contract import NamespaceHead, StateProvider
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.util.locations import Folder

_T = TypeVar("_T")
_LOOKS = 3


@dataclass(frozen=True)
class TopologySnapshot:
    """What was read of a topology's state.

    Attributes:
        topology: Its name.
        record_namespace: The namespace of its decision record.
        record_head: Where that stands.
        stored: The decision record; None where there is none.
        copied: Its copy at the checkpoint location; None where there is none, or no location was looked at.
        query_id: Id of the streaming query at that location; None where nothing lies there, or none was looked at.
        location: The checkpoint location; empty where none was looked at.
        heads: Where each namespace stands.
        problems: What could not be read, and why.
        has_moved: Whether something was written in the course of it.
    """

    topology: str
    record_namespace: str
    record_head: NamespaceHead = field(default_factory=NamespaceHead)
    stored: DecisionRecord | None = None
    copied: DecisionRecord | None = None
    query_id: str | None = None
    location: str = ""
    heads: Mapping[str, NamespaceHead] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    has_moved: bool = False

    @property
    def holds_fence(self) -> bool:
        """Whether the driver that claimed the topology last has not let go of it."""
        return self.record_head.fence.generation > 0 and self.record_head.fence.seq != RELEASED_SEQ


class NullDecisionCopy:
    """See `DecisionCopy`: for who looks at the store alone, and writes nothing."""

    def read(self) -> bytes | None:
        """Return None."""
        return None

    def write(self, generation: int, data: bytes) -> None:
        """Refuse."""
        raise NotImplementedError("nothing is written here")

    def forget_older(self, generation: int) -> None:
        """Refuse."""
        raise NotImplementedError("nothing is written here")


def record_namespace(prefix: str) -> str:
    """Return the namespace of the decision record of a topology whose namespaces begin with `prefix`."""
    return task_namespace(prefix, CHECKPOINT_SPOUT_ID, 0)


def read_topology(
    provider: StateProvider, topology: str, prefix: str, folder: Folder | None = None
) -> TopologySnapshot:
    """Read a topology's decision record, its copy, and where all its namespaces stand; again while they move."""
    snapshot = _read(provider, topology, prefix, folder)
    for _ in range(_LOOKS):
        again = _read(provider, topology, prefix, folder)
        if again == snapshot:
            return snapshot
        snapshot = again
    return TopologySnapshot(**{**vars(snapshot), "has_moved": True})


def _read(provider: StateProvider, topology: str, prefix: str, folder: Folder | None) -> TopologySnapshot:
    name = record_namespace(prefix)
    problems: list[str] = []

    def tried(read: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return read()
        except (StateCorrupted, WaveFailed) as error:
            problems.append(error.message)
            return otherwise

    copy: DecisionCopy = NullDecisionCopy() if folder is None else FolderCopy(folder)
    with closing(provider.open(name)) as storage:
        log = DecisionLog(storage, copy, NoRetry())
        nothing: tuple[DecisionRecord | None, DecisionRecord | None] = (None, None)
        stored, copied = tried(log.load, nothing)
        record_head = tried(storage.head, NamespaceHead())
    query_id = None
    if folder is not None and (copied is not None or folder.exists("metadata")):
        query_id = tried(lambda: query_id_at(folder), "")
    heads = {}
    for namespace in _names(provider, topology, prefix, stored, copied):
        with closing(provider.open(namespace)) as storage:
            heads[namespace] = tried(storage.head, NamespaceHead())
    location = "" if folder is None else folder.location
    return TopologySnapshot(
        topology, name, record_head, stored, copied, query_id, location, heads, tuple(dict.fromkeys(problems))
    )


def _names(provider: StateProvider, topology: str, prefix: str, *records: DecisionRecord | None) -> list[str]:
    """Return the namespaces that records and tasks name, and, where there is a prefix, all others that have it."""
    names = set(provider.namespaces(f"{prefix}:")) if prefix else set()
    for each in records:
        if each is not None and each.topology in ("", topology):
            names |= known_namespaces(each, prefix)
    return sorted(names - {record_namespace(prefix)})


def known_namespaces(record: DecisionRecord, prefix: str) -> set[str]:
    """Return the namespaces that a record names, or that the tasks of its run had."""
    tasks = {
        task_namespace(prefix, component, index)
        for component, count in record.parallelism.items()
        for index in range(count)
    }
    return tasks | set(record.namespaces)
