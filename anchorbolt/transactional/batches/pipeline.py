"""The pipeline: starts the processing phases of the batches of a transactional topology, several at a time.

One thread runs the waves: it fills the pipeline and takes the batches in order. Each processing phase runs in the
background. The metadata of emitters arrives on other threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator
from anchorbolt.checkpoint.decision_log import NOT_OURS_ANY_MORE, DecisionLog
from anchorbolt.checkpoint.ports import BatchTry, Round, TaskKey
from anchorbolt.errors import AnchorboltError, WaveFailed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import Folder
from anchorbolt.transactional.batches.coordinator import BatchCoordinator
from anchorbolt.transactional.batches.flights import BatchDriver, Flight, PartitionStart, Told
from anchorbolt.transactional.batches.hand_off import remove_hand_offs, remove_older_hand_offs
from anchorbolt.transactional.batches.metadata import NO_BATCH, BatchMetadata, Slots, check_size

_POLL_S = 0.05


class Phase(Protocol):
    """A processing phase that runs in the background."""

    is_ended: bool

    def reports(self) -> Sequence[Any]:
        """Return the reports of all its tasks, once the phase has ended. Raises the error that ended it."""

    def cancel(self) -> None:
        """Cancel the phase. It may still run for a while, but its hand-offs are not used."""


class Processing(Protocol):
    """Runs the processing phases of a transactional topology's batches, several at a time."""

    @property
    def session(self) -> Any:
        """Spark's session, for a spout that reads with it; None if there is no such spout."""

    def serve(self, driver: BatchDriver) -> None:
        """Connect the emitters of all phases to `driver`. Called once, before the first phase."""

    def start(self, current: Round, notify: Callable[[], None], /) -> Phase:
        """Begin a phase in the background; `notify` is called, on any thread, when it has ended."""


class Pipeline:
    """The batches in flight. `tell` and `partitions`, the methods of `BatchDriver`, may be called on any thread."""

    def __init__(
        self,
        spout_id: str,
        new_coordinator: Callable[[], BatchCoordinator],
        processing: Processing,
        log: DecisionLog,
        folder: Folder,  # the checkpoint location
        *,
        tasks: int,  # of the spout
        most: int,  # batches in flight
    ) -> None:
        self._spout_id = spout_id
        self._new_coordinator = new_coordinator
        self._processing = processing
        self._log = log
        self._folder = folder
        self._most = most
        self._tasks = tasks
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._changes = 0
        self._flights: dict[int, tuple[Flight, Phase | None]] = {}  # by txid, ascending
        self._stored: dict[int, BatchMetadata] = {}  # metadata of batches that begin again
        self._given_up: BatchMetadata | None = None  # metadata of the last failed batch
        self._retried = -1  # the batch that begins again without a call of `is_ready`
        self._is_held = False  # the coordinator failed: it is called again when no batch is in flight
        self.checked = -1  # the batch that checks each emit, because a buffer was refused in an earlier try
        self.begins_no_more = False  # in a pause; the current batch still begins again if it fails
        self._held_back_until = 0.0  # by `time.monotonic`: no new batch begins before
        self._is_open = False

    def open(self, checkpoints: CheckpointCoordinator) -> None:
        """Continue after the last decision. Raises `SpoutError`, `TopologyError`, and the errors of the store."""
        self._checkpoints = checkpoints
        remove_older_hand_offs(self._folder, self._log.next_fence().generation)
        self._slots = Slots(self._log.load_batches(), checkpoints.record.txid)
        checkpoints.begin_batches(waits=self.waits)
        self._coordinator = self._new_coordinator()
        if not self._coordinator.is_opaque:
            self._stored = dict(self._slots.found)
        self._is_open = True

    def close(self) -> None:
        """Give up all batches, and close the coordinator."""
        if self._is_open:
            self.give_up(0)
            self._coordinator.close()

    @property
    def is_empty(self) -> bool:
        return not self._flights

    @property
    def waits(self) -> bool:
        """Whether a batch of an earlier run is not committed yet. Its committers may have begun to commit it."""
        return any(txid > self._checkpoints.record.txid for txid in self._slots.found)

    def fill(self) -> bool:
        """Begin batches as long as possible; return False if `begins_no_more` has prevented one.

        Raises the coordinator's error, unless batches are in flight, which are not to blame.
        """
        self._is_held = self._is_held and not self.is_empty
        while len(self._flights) < self._most and not self._is_held:
            last = self._last()
            if last is not None and self.begins_no_more and last.txid + 1 != self._retried:
                return False
            try:
                if last is None or not self._begin(last):
                    break
            except NOT_OURS_ANY_MORE:
                raise
            except AnchorboltError:
                if self.is_empty:
                    raise
                self._is_held = True
        return True

    def take(self, txid: int) -> tuple[Flight, Sequence[Any]]:
        """Wait for the end of a batch's processing phase, and begin others meanwhile. The batch stays in flight.

        Raises the error that ended the processing phase. A report may hold a failure of its task.
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
        if all(report.failure is None for report in reports):
            reported = {partition: each for report in reports for partition, each in report.metadata.items()}
            with self._lock:
                flight.check_reported(reported)
        reach(FaultPoint.BATCH_PROCESSED, txid=txid)
        return flight, reports

    def committed(self, txid: int) -> None:
        """Note that a batch has committed."""
        with self._lock:
            flight, _ = self._flights.pop(txid, (None, None))
            self._stored.pop(txid, None)
        if flight is not None:  # None if it was left out
            remove_hand_offs(self._folder, flight.fence)

    def give_up(self, txid: int) -> None:
        """Give up a batch and all later ones. They begin again after the last batch before them."""
        with self._lock:
            self._given_up = self.known(txid)
            given_up = [self._flights.pop(each) for each in list(self._flights) if each >= txid]
            for flight, _ in given_up:
                if not self._coordinator.is_opaque and flight.is_known:
                    self._stored[flight.txid] = flight.metadata
        for flight, processing in given_up:
            if processing is not None:
                processing.cancel()
                if processing.is_ended:
                    remove_hand_offs(self._folder, flight.fence)

    def behind(self) -> dict[str, int]:
        """Return how many offsets the source had after the last committed batch, by spout; empty if unknown."""
        behind = self._coordinator.behind(self._last_committed())
        return {} if behind is None else {self._spout_id: behind}

    def hold_back(self, seconds: float) -> None:
        """Begin no new batch for `seconds`."""
        self._held_back_until = time.monotonic() + seconds

    @property
    def can_tell(self) -> bool:
        """Whether the coordinator has its own `is_ready`, which says when a batch may begin."""
        return self._coordinator.can_tell

    def known(self, txid: int) -> BatchMetadata | None:
        """Return the complete metadata of a batch in flight, or of its last try; None if it is unknown."""
        with self._lock:
            if txid in self._flights:
                flight, _ = self._flights[txid]
                return flight.metadata if flight.is_known else None
            given_up = self._given_up if self._given_up is not None and self._given_up.txid == txid else None
            return self._stored.get(txid, given_up)

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        with self._lock:
            return self._flight_of(current).starts(task, self._tasks)

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        with self._lock:
            flight = self._flight_of(current)
            if flight.tell(told):
                size = sum(map(len, flight.metadata.partitions.values()))
                check_size(self._spout_id, "the metadata of all partitions", size)
                self._store(flight.metadata)
                flight.is_known = True
                reach(FaultPoint.METADATA_STORED, txid=flight.txid)
                self._notify()

    def _last(self) -> BatchMetadata | None:
        """Return the metadata of the last batch; None if it is incomplete."""
        with self._lock:
            if not self._flights:
                return self._last_committed()
            flight, _ = self._flights[max(self._flights)]
            return flight.metadata if flight.is_known else None

    def _last_committed(self) -> BatchMetadata:
        batch = self._checkpoints.record.batch
        return BatchMetadata.decode(batch) if batch else NO_BATCH

    def _begin(self, last: BatchMetadata) -> bool:
        txid = last.txid + 1
        metadata = self._stored.get(txid)
        is_again = metadata is not None
        if metadata is None:
            is_new = txid != self._retried
            if is_new and (time.monotonic() < self._held_back_until or not self._coordinator.is_ready(last)):
                return False
            metadata = self._coordinator.new_batch(last)
            if not self._coordinator.is_partitioned:
                self._store(metadata)
                self._stored[txid] = metadata
        is_known = txid in self._stored
        flight = Flight(metadata, self._log.next_fence(), is_again, last, is_known)
        reach(FaultPoint.BATCH_BEGUN, txid=txid)
        with self._lock:
            self._flights[txid] = flight, None
            self._stored.pop(txid, None)
        batch = BatchTry(flight.attempt, flight.fence, self._checkpoints.record.txid, metadata.whole)
        current = Round(txid, flight.fence, batch=batch, checks=self.checked == txid)
        processing = self._processing.start(current, partial(self._ended, flight))
        with self._lock:
            self._flights[txid] = flight, processing
        return True

    def _store(self, metadata: BatchMetadata) -> None:
        slot = self._slots.slot_of(metadata.txid, self._checkpoints.record.txid)
        self._log.write_batch(slot, metadata.encode())

    def _ended(self, flight: Flight) -> None:
        """Note that a processing phase has ended. If it was cancelled, remove its hand-offs."""
        with self._lock:
            current, _ = self._flights.get(flight.txid, (None, None))
        if current is not flight:
            with suppress(OSError):
                remove_hand_offs(self._folder, flight.fence)
        self._notify()

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
