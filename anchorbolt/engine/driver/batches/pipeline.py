"""The pipeline: starts the processing phases of the batches of a transactional topology, several at a time.

One thread runs the waves: it fills the pipeline and takes the batches in their order. Each processing phase runs in
the background. What emitters tell comes on yet other threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from anchorbolt.checkpoint.batches.hand_off import remove_hand_offs
from anchorbolt.checkpoint.batches.metadata import NO_BATCH, BatchMetadata, Slots
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.ports import BatchTry, Round, TaskKey
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.batches.coordinator import BatchCoordinator
from anchorbolt.engine.driver.batches.flights import Flight
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.emitter_task import PartitionStart, Told
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import WaveFailed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.state import Fence
from anchorbolt.util.locations import Folder

_log = logging.getLogger("anchorbolt.engine")

_POLL_S = 0.05


class Processing(Protocol):
    """A processing phase that runs in the background."""

    is_ended: bool

    def reports(self) -> Sequence[TaskReport]:
        """Return the reports of all its tasks, once it has ended. Raises what has ended it."""

    def cancel(self) -> None:
        """Give it up: it may still run for a while, but its hand-offs are of no use."""


StartProcessing = Callable[[Round, Callable[[], None]], Processing]
"""Starts a processing phase; the second argument is called, on any thread, when it has ended."""


class Pipeline:
    """The batches in flight. `tell` and `partitions` may be called on any thread; they are `BatchDriver`."""

    def __init__(self, plan: ExecutionPlan, log: DecisionLog, folder: Folder) -> None:
        """Create it for a run with this decision log and checkpoint location."""
        self._plan = plan
        self._log = log
        self._folder = folder
        self._most = plan.settings.max_spout_pending or 1
        self._tasks = len(plan.tasks[plan.batch_spout])
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._changes = 0
        self._flights: dict[int, tuple[Flight, Processing | None]] = {}  # by txid, ascending
        self._stored: dict[int, BatchMetadata] = {}  # of batches that begin again
        self._given_up: list[Fence] = []  # of tries with hand-offs that are of no use
        self._retried = -1  # the batch that begins again without being ready

    def open(self, spout: CheckpointSpout, start: StartProcessing) -> None:
        """Continue behind the last decision. Raises `SpoutError`, and what the store raises."""
        self._spout = spout
        self._start = start
        remove_hand_offs(self._folder)  # of drivers before this one
        self._coordinator = BatchCoordinator(self._plan)
        self._slots = Slots(self._log.load_batches(), spout.record.txid)
        if not self._coordinator.is_opaque:
            self._stored = dict(self._slots.found)

    def close(self) -> None:
        """Give up all batches, and close the coordinator."""
        self.give_up(0)
        self._coordinator.close()

    @property
    def is_empty(self) -> bool:
        return not self._flights

    def fill(self) -> None:
        """Begin batches while one may begin."""
        while len(self._flights) < self._most:
            last = self._last()
            if last is None or not self._begin(last):
                return

    def take(self, txid: int) -> tuple[Flight, Sequence[TaskReport]]:
        """Wait for the end of a batch's processing phase, and begin others meanwhile. The batch stays in flight.

        Raises what has ended its processing phase.
        """
        if txid not in self._flights:
            self._retried = txid
        while True:
            seen = self._changes
            self.fill()
            flight, processing = self._flights[txid]
            assert processing is not None
            if processing.is_ended:
                break
            with self._changed:
                if self._changes == seen:
                    self._changed.wait(_POLL_S)
        reports = processing.reports()
        reported = {partition: each for report in reports for partition, each in report.metadata.items()}
        with self._lock:
            flight.check_reported(reported)
        reach(FaultPoint.BATCH_PROCESSED, txid=txid)
        return flight, reports

    def committed(self, txid: int) -> None:
        """Note that a batch has committed."""
        with self._lock:
            flight, _ = self._flights.pop(txid, (None, None))
            self._slots.committed(txid)
            useless, self._given_up = self._given_up, []
        if flight is not None:  # None if it was left out
            useless.append(flight.fence)
        for fence in useless:
            remove_hand_offs(self._folder, fence)

    def give_up(self, txid: int) -> None:
        """Give up a batch and all behind it. They begin again, from where the batch before them ended."""
        with self._lock:
            given_up = [self._flights.pop(each) for each in list(self._flights) if each >= txid]
            self._given_up += [flight.fence for flight, _ in given_up]
            for flight, _ in given_up:
                if not self._coordinator.is_opaque and flight.is_known:
                    self._stored[flight.txid] = flight.metadata
        for _, processing in given_up:
            if processing is not None:
                processing.cancel()

    def known(self, txid: int) -> BatchMetadata | None:
        """Return the whole metadata of a batch in flight, or of one that begins again; None if it is not known."""
        with self._lock:
            if txid in self._flights:
                flight, _ = self._flights[txid]
                return flight.metadata if flight.is_known else None
            return self._stored.get(txid)

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        with self._lock:
            return self._flight_of(current).starts(task, self._tasks)

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        with self._lock:
            flight = self._flight_of(current)
            if flight.tell(told):
                self._log.write_batch(self._slots.slot_of(flight.txid), flight.metadata.encode())
                flight.is_known = True
                reach(FaultPoint.METADATA_STORED, txid=flight.txid)
                self._notify()

    def _last(self) -> BatchMetadata | None:
        """Return the metadata of the last batch; None if it is not known yet."""
        with self._lock:
            if not self._flights:
                batch = self._spout.record.batch
                return BatchMetadata.decode(batch) if batch else NO_BATCH
            flight, _ = self._flights[max(self._flights)]
            return flight.metadata if flight.is_known else None

    def _begin(self, last: BatchMetadata) -> bool:
        txid = last.txid + 1
        metadata = self._stored.pop(txid, None)
        is_stored = metadata is not None
        if metadata is None:
            if txid != self._retried and not self._coordinator.is_ready(last):
                return False
            metadata = self._coordinator.new_batch(last)
            if not self._coordinator.is_partitioned:
                self._log.write_batch(self._slots.slot_of(txid), metadata.encode())
                is_stored = True
        flight = Flight(metadata, self._log.next_fence(), is_stored, last)
        reach(FaultPoint.BATCH_BEGUN, txid=txid)
        with self._lock:
            self._flights[txid] = flight, None
        batch = BatchTry(flight.attempt, flight.fence, self._spout.record.txid, metadata.whole)
        processing = self._start(Round(txid, flight.fence, batch=batch), self._notify)
        with self._lock:
            self._flights[txid] = flight, processing
        return True

    def _notify(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def _flight_of(self, current: Round) -> Flight:
        flight, _ = self._flights.get(current.txid, (None, None))
        if flight is None or flight.fence != current.fence:
            raise WaveFailed(
                f"batch {current.txid} was given up, and begins again: this task is of an earlier try",
                txid=current.txid,
            )
        return flight
