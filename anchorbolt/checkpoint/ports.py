"""The interface that an engine implements for the protocol, and the plain data that pass through it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import Acked, Committed, Inputs, Winner
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.checkpoint.times import EventTime, TimesOfWave
from anchorbolt.state_backends.state import Fence
from anchorbolt.streams.attempt import TransactionAttempt

TaskKey = tuple[str, int]
"""A task: its component's id and its index; for a stream spout, the index of the source's partition."""


@dataclass(frozen=True)
class Batch:
    """The source's micro-batch that a wave processes."""

    query_id: str  # id of the streaming query; empty on an engine without one
    batch_id: int  # counted from 0
    offsets_digest: str = ""  # digest of the batch's offsets; empty if the source has none


class Probe(NamedTuple):
    """A step of the search for a tuple that kills its worker, see `anchorbolt.engine.driver.isolation`."""

    first: int  # only tuples with roots from `first` …
    middle: int  # … up to, but not including, `middle` are sent
    end: int  # tuples from `middle` up to, but not including, `end` are reported as `Others`


class Others(NamedTuple):
    """The tuples that a probe does not send, of one or more spout tasks; at least one tuple."""

    lowest: int  # root
    highest: int
    tuples: int

    @classmethod
    def joined(cls, found: "Sequence[Others | None]") -> "Others | None":
        """Return all of them together; None if there are none."""
        several = [each for each in found if each is not None]
        if not several:
            return None
        lowest, highest, tuples = zip(*several, strict=True)
        return cls(min(lowest), max(highest), sum(tuples))


class HandOff(NamedTuple):
    """A file in which a task of a late bolt keeps data from a batch's processing phase for its commit phase.

    See `anchorbolt.transactional.batches.hand_off`.
    """

    attempt: str  # of the task that wrote it; part of the file's name
    holds_instance: bool  # True for the pickled bolt, False for the blobs that the task received


@dataclass(frozen=True)
class BatchTry:
    """One try at a batch of a transactional topology, in one of its phases."""

    attempt: TransactionAttempt
    fence: Fence  # of the processing phase; names the folder of the hand-offs
    committed: int  # the last committed txid when the try began
    metadata: bytes | None = None  # packed; if the spout's coordinator decides on the whole batch
    hand_offs: Mapping[TaskKey, HandOff] | None = None  # in the commit phase; None in the processing phase


@dataclass(frozen=True)
class Round:
    """One try at running a wave, as its tasks see it. Pickled to every task."""

    txid: int
    fence: Fence
    committed: Mapping[str, Committed] = field(default_factory=dict)  # every namespace that was ever changed
    # By task of a stateful bolt: its attempt in the last decided wave, even if it changed nothing.
    task_winners: Mapping[TaskKey, str] = field(default_factory=dict)
    ticks: frozenset[str] = frozenset()  # the bolts that get a tick tuple
    rolled_back: tuple[int, ...] = ()  # the `seq` of the fences of the latest rounds that were rolled back, ascending
    isolates: bool = False  # an exception of a bolt fails only the trees of its tuple; all tuples are tracked
    checks: bool = False  # check each emitted tuple at once, to find the tuple of a value that cannot be sent
    excluded_rows: frozenset[int] = frozenset()  # roots of rows of stream spouts that are left out
    probe: Probe | None = None  # only some tuples are sent, and nothing is decided
    suspects_tuples: bool = False  # so many executors were lost that a tuple may be the cause
    batch: BatchTry | None = None  # in a transactional topology
    columns: Mapping[str, bytes] = field(default_factory=dict)  # by sink: see `DecisionRecord.schemas`
    clock: int = 0  # ms since 1970: fixed when the wave begins, and never below the last wave's
    watermarks: Mapping[str, int] = field(default_factory=dict)  # by bolt with event time, once it has one
    expiring: frozenset[str] = frozenset()  # the bolts whose states have entries that expire
    savepoint: str = ""  # the id of one that is taken now: tasks keep what they stage, see `live_savepoint`; or empty

    def was_rolled_back(self, fence: Fence) -> bool:
        """Return whether a round of this run was rolled back; True if it is too old to be known."""
        kept = self.rolled_back
        return fence.seq in kept or (len(kept) == ROLLED_BACK_KEPT and fence.seq < kept[0])


ROLLED_BACK_KEPT = 64


@dataclass(frozen=True)
class PreparedRound:
    """A round in which every task has prepared."""

    winners: Mapping[str, Winner]  # by namespace: the attempts that changed state
    task_winners: Mapping[TaskKey, str]  # by task of a stateful bolt: the attempt that prepared
    files: tuple[SinkFile, ...]  # the files of the sinks' tasks in the outbox
    reports: Sequence[Any]  # of the engine, which adds them up when the wave has committed
    acked: Acked = field(default_factory=dict)  # of this run's spouts, see `DecisionRecord.acked`
    dead_letters: tuple[DeadLetter, ...] = ()
    replayed: Mapping[str, str] = field(default_factory=dict)  # for this run's locations, see `DecisionRecord.replayed`
    batch: bytes = b""  # see `DecisionRecord.batch`
    journals: frozenset[str] = frozenset()  # see `DecisionRecord.journals`
    times: Mapping[str, TimesOfWave] = field(default_factory=dict)  # by bolt, see `DecisionRecord.times`
    repeat: bool = False  # roll it back, and run again without the failed tuple trees


class Tasks(Protocol):
    """The tasks of the topology."""

    def prepare(self, current: Round) -> PreparedRound:
        """Send the batch's data, then PREPARE, through all tasks.

        Called again for another round of the same batch. Raises any exception if the round as a whole failed.
        """

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        """Send COMMIT or ROLLBACK to the tasks of bolts that have a hook for it. Raises `BoltError`.

        The tasks do not commit or roll back their state: see `namespaces`.
        """


class CommitTasks(Protocol):
    """Commits namespaces in other processes than the driver's."""

    def commit(self, fence: Fence, txid: int, winners: Mapping[str, Winner]) -> None:
        """Commit the winners of these namespaces; may be repeated.

        Raises as `StateStorage.commit`, and `WaveFailed` if tasks were lost too often. Then some namespaces may have
        committed.
        """


@dataclass(frozen=True)
class Layout:
    """The facts about the running topology that the protocol needs."""

    topology: str
    headers: Mapping[str, str] = field(default_factory=dict)  # by namespace: the configured format header
    parallelism: Mapping[str, int] = field(default_factory=dict)  # tasks per stateful bolt
    groupings: Mapping[str, Inputs] = field(default_factory=dict)  # per stateful bolt
    columns: Mapping[str, bytes] = field(default_factory=dict)  # by sink: the columns that the author declared
    schema_versions: Mapping[str, int] = field(default_factory=dict)  # per stateful bolt
    tasks: Mapping[str, TaskKey] = field(default_factory=dict)  # by namespace: the task that keeps its state there
    # The rich spouts by the ids of their tasks, if there are ackers; an empty name without stable message ids.
    spout_tasks: Mapping[int, str] = field(default_factory=dict)
    batch_spout: str = ""  # see `DecisionRecord.batch_spout`
    committers: Mapping[str, int] = field(default_factory=dict)  # tasks per committer
    event_times: Mapping[str, EventTime] = field(default_factory=dict)  # by bolt with event time
    rescales: bool = False  # whether a stateful bolt may have another number of tasks than before
