"""The interfaces that an engine implements for the protocol, and the plain data that they exchange."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.errors import StateUnavailable
from anchorbolt.state_backends.contract import NamespaceHead
from anchorbolt.state_backends.scope import Fence

T = TypeVar("T")

TaskKey = tuple[str, int]
"""A task: its component's id and its index; for a stream spout, the index of the source's partition."""


@dataclass(frozen=True)
class Batch:
    """The source's micro-batch that a wave processes."""

    query_id: str  # id of the streaming query; empty on an engine without one
    batch_id: int  # counted from 0
    offsets_digest: str = ""  # digest of the batch's offsets; empty where the source has none


@dataclass(frozen=True)
class Round:
    """One try at running a wave, as its tasks see it. Pickled to every task."""

    txid: int
    fence: Fence
    committed: Mapping[str, Committed] = field(default_factory=dict)  # every namespace that was ever changed
    winners: Mapping[TaskKey, str] = field(default_factory=dict)  # attempts that won the last decided wave


@dataclass(frozen=True)
class PreparedRound:
    """A round in which every task has prepared."""

    winners: Mapping[str, Winner]  # by namespace: the attempts that changed state
    attempts: Mapping[TaskKey, str]  # by task of a stateful bolt: the attempt that prepared
    files: tuple[SinkFile, ...]  # what the sinks' tasks wrote to the outbox
    reports: Sequence[Any]  # the engine's own: it adds them up when the wave has committed


class Tasks(Protocol):
    """The tasks of the topology."""

    def prepare(self, current: Round) -> PreparedRound:
        """Send the batch's data, and PREPARE behind it, through all tasks.

        Called again for another round of the same batch. Raises any exception if the round as a whole failed.
        """

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        """Send COMMIT or ROLLBACK to the tasks of bolts that have a hook for it. Raises `BoltError`.

        The state of every task, with or without a hook, is moved by the driver: see `Namespaces`.
        """


class Namespaces(Protocol):
    """All namespaces of the topology. Every call waits for a store that does not answer, within bounds."""

    def open(self, names: Iterable[str]) -> None:
        """Open the namespaces that are not open yet."""

    def is_custom(self, name: str) -> bool:
        """Return whether the namespace is kept beside a state of a user's own class."""

    def heads(self) -> dict[str, NamespaceHead]:
        """Read the heads of all open namespaces."""

    def raise_fence(self, fence: Fence) -> dict[str, NamespaceHead]:
        """Raise the fence of all open namespaces, then read their heads."""

    def commit(self, fence: Fence, txid: int, winners: Mapping[str, Winner]) -> None:
        """Commit the winners: the only place where state is committed."""

    def roll_back(self, fence: Fence, names: Iterable[str] | None = None) -> None:
        """Raise the fence of these namespaces, or of all, and drop what is staged there."""

    def close(self) -> None:
        """Close all namespaces."""


class Outbox(Protocol):
    """The sinks' files between PREPARE and the publication of their rows."""

    def publish(self, record: DecisionRecord, check_claim: Callable[[], None]) -> None:
        """Publish the rows of a decided wave; may be repeated. Calls `check_claim` before each sink."""

    def without_lost(self, record: DecisionRecord) -> DecisionRecord:
        """Return the record without the files that are gone, and warn of each lost row."""

    def drop_round(self, fence: Fence) -> None:
        """Remove what the tasks of a failed round wrote."""

    def clean(self, record: DecisionRecord, generation: int) -> None:
        """Remove the files of this and older drivers, except the record's own."""


class Backoff(Protocol):
    """The pauses between the tries of one thing."""

    def sleep_or_give_up(self, error: StateUnavailable) -> bool:
        """Sleep, longer each time, and return True; return False at once when the time is used up."""


class Retry(Protocol):
    """Repeats a call while the store does not answer."""

    def until_available(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; raise its `StateUnavailable` once the time is used up."""

    def backoff(self) -> Backoff:
        """Return the pauses for one thing that may fail several times."""


class NoRetry:
    """Tries once: for tools, which a person can start again."""

    def until_available(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()

    def backoff(self) -> Backoff:
        """Return pauses that give up at once."""
        return _NoBackoff()


class _NoBackoff:
    def sleep_or_give_up(self, error: StateUnavailable) -> bool:
        return False


@dataclass(frozen=True)
class Ports:
    """Everything that an engine brings to the protocol."""

    tasks: Tasks
    namespaces: Namespaces
    outbox: Outbox
    retry: Retry


@dataclass(frozen=True)
class Layout:
    """The facts about the running topology that the protocol needs."""

    topology: str
    tasks: Mapping[str, TaskKey]  # by namespace: the task that keeps its state there
    headers: Mapping[str, str]  # by namespace: the format header that the configuration gives
    parallelism: Mapping[str, int]  # tasks per stateful bolt
    schema_versions: Mapping[str, int] = field(default_factory=dict)  # per stateful bolt
