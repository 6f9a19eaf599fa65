"""The sources that the driver runs itself: rich spouts, tick tuples, replayed dead letters, and feeders of tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.letters.letter_store import letter_store
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.replays import Replays
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams.declaration import DEFAULT_STREAM

if TYPE_CHECKING:
    from anchorbolt.engine.sources.rich_spouts import NewHost, RichSpouts

Clock = Callable[[], float]


def driver_spouts(
    plan: ExecutionPlan,
    engine: str,
    kinds: tuple[type[Spout], ...],
    clock: Clock = time.monotonic,
    new_host: NewHost | None = None,
    wall_clock: Clock = time.time,
) -> DriverSpouts | None:
    """Return the sources that the driver runs itself; None if the plan has no such source.

    `kinds` are the spouts that the engine with this name can run; for `new_host` see `DriverSpouts`.

    Raises `TopologyError` for any other spout.
    """
    for component, spec in plan.graph.spouts.items():
        if not isinstance(spec.spout, kinds):
            raise TopologyError(
                f"spout {component!r}: it is a {type(spec.spout).__name__}, which does not run on {engine}. Use one of "
                f"{', '.join(kind.__name__ for kind in kinds)}.",
                component=component,
            )
    has_others = len(plan.graph.stream_spouts) < len(plan.graph.spouts)
    is_needed = has_others or plan.ticks or plan.replays_letters or any(each.has_timers for each in plan.times.values())
    return DriverSpouts(plan, clock, new_host, wall_clock) if is_needed else None


class DriverSpouts:
    """The sources of a run that the driver runs itself.

    Attributes:
        replays: None if no dead letters can be processed again.
        ticks: The schedule of tick tuples.
        rich: The rich spouts; None if there are none.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        clock: Clock = time.monotonic,
        new_host: NewHost | None = None,
        wall_clock: Clock = time.time,
    ) -> None:
        """Make the tasks.

        Args:
            plan: The plan.
            clock: Returns seconds, for the timeouts of trees, the times of tick tuples and the ages of messages.
            new_host: Makes the host of a rich spout's task; None for a host with its own thread.
            wall_clock: Returns seconds since 1970, for the times of timers.
        """
        letters = letter_store(plan.settings.dead_letter, plan.settings.provider, plan.locations)
        self.replays = None if letters is None else Replays(plan, letters)
        self.ticks = Ticks(plan.ticks, clock)
        self.rich: RichSpouts | None = None
        if plan.wiring.rich_spout_tasks:
            from anchorbolt.engine.sources.rich_spouts import RichSpouts  # NumPy: only where it is needed

            hosts = {} if new_host is None else {"new_host": new_host}
            self.rich = RichSpouts(plan, clock, **hosts)
        # Feeders come after the dead letters, which are replayed only in a wave that has no batch yet.
        all_of_them = (self.replays, Feeders(plan), self.ticks, Alarms(plan, wall_clock), self.rich)
        self.sources: Sequence[Source] = [source for source in all_of_them if source is not None]


class Ticks(Source):
    """The schedule of a run's tick tuples. An overdue tick is sent once, however long ago it was due.

    Attributes:
        bolts: The bolts that get a tick tuple in the current wave.
    """

    def __init__(self, seconds: Mapping[str, float], clock: Clock) -> None:
        """`seconds` is the time between two ticks, by bolt; the first tick is due that long after now."""
        self._seconds = seconds
        self._clock = clock
        now = self._taken_at = clock() if seconds else 0.0
        self._due_at = {bolt: now + each for bolt, each in seconds.items()}
        self.bolts: frozenset[str] = frozenset()

    def poll(self) -> bool:
        return bool(self._due_at) and min(self._due_at.values()) <= self._clock()

    @property
    def is_empty(self) -> bool:
        return not self.poll()

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        now = self._taken_at = self._clock()
        self.bolts = frozenset(bolt for bolt, at in self._due_at.items() if at <= now)
        return batch

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        """Schedule the next ticks, counted from the wave's start."""
        for bolt in self.bolts:
            self._due_at[bolt] = self._taken_at + self._seconds[bolt]
        return report


class Alarms(Source):
    """Causes a wave when a timer of a bolt is due: by the clock of the waves, or by the bolt's watermark.

    Also when the watermark would pass a timer, because a stream has become idle.
    """

    def __init__(self, plan: ExecutionPlan, clock: Clock) -> None:
        """`clock` returns seconds since 1970."""
        event_times = plan.event_times
        self._bolts = {bolt: event_times.get(bolt) for bolt, time in plan.times.items() if time.has_timers}
        # The bolts whose windows are closed when the sources are empty, upstream bolts first.
        self._closing = [bolt for bolt in self._bolts if plan.settings.closes_windows]
        self._clock = clock
        self._checkpoints: CheckpointCoordinator | None = None

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        self._checkpoints = checkpoints

    def poll(self) -> bool:
        if not self._bolts or self._checkpoints is None or self.is_held:
            return False
        record = self._checkpoints.record
        now = max(record.clock, int(self._clock() * 1000))  # as for the next wave
        return any(bolt in record.times and record.times[bolt].is_due(now, time) for bolt, time in self._bolts.items())

    @property
    def is_empty(self) -> bool:
        return not self.poll()

    def would_end(self) -> bool:
        """Close the windows of the next bolt that has open ones, if the run is to close them."""
        while self._closing and self._checkpoints is not None:
            bolt = self._closing.pop(0)
            times = self._checkpoints.record.times.get(bolt)
            if times is not None and times.due.event is not None:
                self._checkpoints.end_event_time(bolt)
                return True
        return False


class Feeders(Source):
    """All feeder spouts of a topology; each has one task."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._spouts = {id: spec.spout for id, spec in plan.graph.spouts.items() if isinstance(spec.spout, FeederSpout)}
        self._counts_batches = bool(self._spouts) and not plan.graph.stream_spouts
        self._taken: dict[str, list[tuple[object, ...]]] = {}

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        """Settle the batches that an earlier run took."""
        self.end_wave(checkpoints.record.txid)
        for each in self._spouts.values():
            each.on_feed = wake

    def poll(self) -> bool:
        return not (self.is_held or self.is_empty)

    @property
    def is_empty(self) -> bool:
        return not any(spout.is_waiting() for spout in self._spouts.values())

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        """Take a batch of each spout; an empty batch while the spouts are held."""
        txid, spouts = record.txid + 1, self._spouts.items()
        self._taken = {component: [] if self.is_held else spout.take(txid) for component, spout in spouts}
        if self._counts_batches and batch is None:
            return Batch(record.query_id, record.batch_id + 1, record.offsets_digest)
        return batch

    def rows(self, current: Round) -> Iterator[Envelope]:
        for component, batch in self._taken.items():
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in self._spouts[component].fields]
            rows = [SourceRows(DEFAULT_STREAM, len(batch), columns)]
            yield from run_spout_task(self._plan, component, 0, current, rows)

    def end_wave(self, txid: int) -> None:
        """Forget the batches of the last decided wave, `txid`; return the batches of a later wave to their spouts."""
        for spout in self._spouts.values():
            spout.settle(txid)
        self._taken = {}
