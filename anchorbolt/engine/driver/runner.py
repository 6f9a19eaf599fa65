"""The port through which the driver runs tasks; each engine implements it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.sources.driver_spouts import DriverSpouts
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.task.commit_task import CommitGroup
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.transactional.batches.pipeline import Processing


class StageProgress(NamedTuple):
    """The progress of the last job for bolts. Empty on an engine that does not report it."""

    ended: Mapping[TaskKey, int] = {}  # the executed tuples, by ended task
    tasks: int = 0  # all tasks of the job if it still runs


class WorkerFigures(NamedTuple):
    """A worker that stays, as it was a second ago."""

    slot: int  # its number, from 0
    host: str
    pid: int
    since: float  # seconds since 1970
    tasks: int
    buffered_bytes: int  # blobs in memory that wait for its tasks, or for other processes to take them
    spilled_bytes: int  # blobs that were ever written to files
    cached_entries: int
    sent_bytes: Mapping[int, int]  # by slot: to each other worker


class Runner(Protocol):
    """Runs the tasks of a run's rounds."""

    @property
    def clock(self) -> Callable[[], float]:
        """Returns seconds since 1970, for the clock of the waves."""

    @property
    def sources(self) -> Sequence[Source]:
        """The run's sources. Empty for a transactional topology, whose source is its pipeline: see `parts_of_run`."""

    @property
    def spouts(self) -> DriverSpouts | None:
        """The sources that the driver runs itself; None if there are none."""

    @property
    def processing(self) -> Processing | None:
        """The processing phases of a transactional topology; None for any other."""

    @property
    def slots(self) -> int:
        """How many tasks can run at a time in other processes; 0 if this engine runs tasks in the driver's process."""

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        """Run a round's data and PREPARE through all tasks; return their reports.

        The data are those of the current batch. In a transactional topology only the tasks of the commit phase run,
        with the data of the batch that they kept in its processing phase. Called again for another round of the same
        wave. Raises any exception if the round as a whole failed.
        """

    def send(self, checkpoint: CheckpointTuple, current: Round, tasks: Sequence[TaskKey]) -> None:
        """Make these tasks handle COMMIT or ROLLBACK. Raises `BoltError`, or `WaveFailed` if a worker was lost."""

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        """Run a commit task for each group; return their reports. Raises any exception if Spark could not."""

    def read_files(self, files: Mapping[bytes, Sequence[str]], columns: bytes) -> Any:
        """Return a Spark DataFrame of Parquet files, see `Outbox`."""

    def progress(self) -> StageProgress:
        """Return the progress of the last job for bolts."""

    def long_calls(self) -> Sequence[LongCall]:
        """Return the calls of bolts, spouts and emitters that have not returned for two seconds, on any worker."""

    def workers(self) -> Sequence[WorkerFigures]:
        """Return the workers that stay and are there now, by slot; empty on an engine without them."""

    def close_instances(self) -> None:
        """Close the instances of bolts that the tasks keep."""
