"""The spouts and tick tuples that the driver runs itself, and the waves in which their tuples are processed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.letters.letter_store import letter_store
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spouts.replays import Replays
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams.declaration import DEFAULT_STREAM

if TYPE_CHECKING:
    from anchorbolt.engine.spouts.rich_spouts import NewHost, RichSpouts

Clock = Callable[[], float]


class DriverSpouts:
    """All spouts of a topology but stream spouts. The methods are called on one thread, if they do not say otherwise.

    Attributes:
        ticks: The bolts that get a tick tuple in the current wave.
        rich: The rich spouts; None if there are none.
        changed: Notified when something begins to wait.
    """

    def __init__(self, plan: ExecutionPlan, clock: Clock = time.monotonic, new_host: NewHost | None = None) -> None:
        """Make the tasks.

        Args:
            plan: The plan.
            clock: Returns the seconds by which trees time out, tick tuples are due and the ages of messages are
                measured.
            new_host: Makes the host of a rich spout's task; None for one with a thread of its own.
        """
        self.changed = threading.Condition()
        self._plan = plan
        self._counts_batches = not plan.graph.stream_spouts
        self._is_paused = False
        self._feeders = Feeders(plan)
        self._ticks = Ticks(plan.ticks, clock)
        self.ticks: frozenset[str] = frozenset()
        letters = letter_store(plan.settings.dead_letter, plan.settings.provider, plan.locations)
        self.replays = None if letters is None else Replays(plan, letters)
        self.rich: RichSpouts | None = None
        if plan.rich_spout_tasks:
            from anchorbolt.engine.spouts.rich_spouts import RichSpouts  # NumPy: only where it is needed

            hosts = {} if new_host is None else {"new_host": new_host}
            self.rich = RichSpouts(plan, clock, self.notify, **hosts)

    def notify(self) -> None:
        """Wake the thread that waits for `changed`. May be called on any thread."""
        with self.changed:
            self.changed.notify_all()

    def open(self, record: DecisionRecord) -> None:
        """Continue after the last decision.

        Raises:
            SpoutError: A spout could not be opened. An `AnchorboltError` that a spout raises comes as it is.
            Fenced: Another run has committed meanwhile, with more ackers.
            StateError: The open trees cannot be read from the store, or are damaged.
        """
        self._feeders.open(record.txid, self.notify)
        if self.replays is not None:
            self.replays.open(record)
        if self.rich is not None:
            self.rich.open(record)

    def pause(self) -> None:
        """Ask no spout for more: waves take in only what rich spouts have emitted. May be called on any thread."""
        self._is_paused = True
        if self.rich is not None:
            self.rich.pause()

    def resume(self) -> None:
        """End the pause. May be called on any thread."""
        self._is_paused = False
        if self.rich is not None:
            self.rich.resume()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to process in a wave; in a pause, only what is in flight."""
        return self._continues or (not self._is_paused and self._begins)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is in flight, and no rich spout has emitted for a while."""
        # In this order: a spout may emit meanwhile.
        return (self.rich is None or self.rich.is_idle) and not (self._continues or self._begins)

    @property
    def _continues(self) -> bool:
        """Whether a wave is due for what earlier ones have begun, for tuples of rich spouts, or for ticks."""
        return self._ticks.is_due or (self.rich is not None and self.rich.is_waiting)

    @property
    def _begins(self) -> bool:
        """Whether something waits that a pause keeps back: rows of a feeder, or dead letters."""
        return self._feeders.is_waiting or (self.replays is not None and self.replays.is_waiting)

    @property
    def is_settled(self) -> bool:
        """Whether no tuple of the rich spouts waits, and none of their messages is in flight."""
        return self.rich is None or self.rich.is_settled

    @property
    def is_drained(self) -> bool:
        """Whether no rich spout emits any more, after `pause` or `RichSpouts.drain`."""
        return self.rich is None or self.rich.is_drained

    @property
    def replayed(self) -> Mapping[str, str]:
        """The dead letters that the current wave processes again, see `DecisionRecord.replayed`; empty if unknown."""
        return {} if self.replays is None else self.replays.known

    def next_batch(self, record: DecisionRecord) -> Batch:
        """Return the batch of a wave without a query's batch: the last one again, but feeder spouts count on."""
        counts_on = bool(self._feeders) and self._counts_batches
        return Batch(record.query_id, record.batch_id + counts_on, record.offsets_digest)

    @contextmanager
    def wave(self, spout: CheckpointSpout, *, replays: bool = False) -> Iterator[None]:
        """Freeze what was emitted: it is the intake of the wave that runs in this context.

        With `replays`, dead letters that wait are processed in it as well; for waves without a query's batch.
        When the wave has committed, its messages are settled. If it has failed for good, nothing is acked or failed.
        """
        is_paused = self._is_paused
        self._feeders.take(spout.record.txid + 1, only_empty=is_paused)
        self.ticks = self._ticks.due()
        try:
            if self.replays is not None and replays and not is_paused:
                self.replays.begin_wave()
            if self.rich is not None:
                self.rich.begin_wave()
            yield
            self._ticks.sent(self.ticks)
            if self.replays is not None:
                self.replays.settle()
            if self.rich is not None:
                self.rich.settle(spout.record.txid)
        finally:
            self._feeders.settle(spout.record.txid)
            if self.replays is not None:
                self.replays.end_wave()
            if self.rich is not None:
                self.rich.end_wave()

    def run_tasks(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all tasks for the current wave. May be called in each of its rounds."""
        yield from self._feeders.run_tasks(current)
        for task, rows in self.replays.rows() if self.replays is not None else ():
            yield from run_spout_task(self._plan, *task, current, rows)
        if self.rich is not None:
            yield from self.rich.run_tasks(current)


class Ticks:
    """The schedule of a run. A tick that is overdue comes once, however long ago it was due."""

    def __init__(self, seconds: Mapping[str, float], clock: Callable[[], float]) -> None:
        """`seconds` is the time between two ticks of a bolt; the first is due that long after now."""
        self._seconds = seconds
        self._clock = clock
        now = self._taken_at = clock() if seconds else 0.0
        self._due_at = {bolt: now + each for bolt, each in seconds.items()}

    @property
    def is_due(self) -> bool:
        return bool(self._due_at) and min(self._due_at.values()) <= self._clock()

    def due(self) -> frozenset[str]:
        """Return the bolts whose tick is due now: at the start of a wave."""
        now = self._taken_at = self._clock()
        return frozenset(bolt for bolt, at in self._due_at.items() if at <= now)

    def sent(self, bolts: frozenset[str]) -> None:
        """Note that the wave has committed, with a tick for these bolts. The next ones count from its start."""
        for bolt in bolts:
            self._due_at[bolt] = self._taken_at + self._seconds[bolt]


class Feeders:
    """All feeder spouts of a topology; each has one task."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._spouts = {id: spec.spout for id, spec in plan.graph.spouts.items() if isinstance(spec.spout, FeederSpout)}
        self._taken: dict[str, list[tuple[object, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._spouts)

    def open(self, last_txid: int, on_feed: Callable[[], None]) -> None:
        """Settle what an earlier run has taken; call `on_feed` whenever a spout is fed."""
        self.settle(last_txid)
        for spout in self._spouts.values():
            spout.on_feed = on_feed

    @property
    def is_waiting(self) -> bool:
        return any(spout.is_waiting() for spout in self._spouts.values())

    def take(self, txid: int, *, only_empty: bool = False) -> None:
        """Take a batch of each spout for a wave; with `only_empty`, an empty one."""
        self._taken = {component: [] if only_empty else spout.take(txid) for component, spout in self._spouts.items()}

    def settle(self, txid: int) -> None:
        """Forget the batches of the last decided wave, `txid`; a later wave's go back to their spouts."""
        for spout in self._spouts.values():
            spout.settle(txid)
        self._taken = {}

    def run_tasks(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all tasks for the current wave. May be called in each of its rounds."""
        for component, batch in self._taken.items():
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in self._spouts[component].fields]
            rows = [SourceRows(DEFAULT_STREAM, len(batch), columns)]
            yield from run_spout_task(self._plan, component, 0, current, rows)
