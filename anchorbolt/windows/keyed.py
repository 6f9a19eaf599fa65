"""`BaseWindowBolt`: a bolt that adds up the tuples of each key in windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.errors import UnsupportedValue
from anchorbolt.state_backends.timed.timers import Timer
from anchorbolt.streams.columns import as_list, rows_of
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import DEFAULT_STREAM
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.times import instant_ms
from anchorbolt.windows.by_key import WindowsByKey
from anchorbolt.windows.kinds import Aggregate, Window

if TYPE_CHECKING:
    from anchorbolt.streams.tuple_batch import TupleBatch


class WindowCollector:
    """Emits the results of a window, anchored to its end. The engine passes it to `close`."""

    def __init__(self, collector: OutputCollector) -> None:
        self._collector = collector
        self._timer: Timer | None = None

    def emit(self, values: Sequence[Any], *, stream: str = DEFAULT_STREAM) -> None:
        """Emit a tuple; in a transactional topology without its attempt, which is put before the values.

        Raises the same errors as `OutputCollector.emit`.
        """
        if isinstance(self._collector, BatchOutputCollector):
            values = (self._collector.attempt, *values)
        self._collector.emit(values, anchors=self._timer, stream=stream)

    def report_error(self, error: BaseException) -> None:
        """Log an error that does not fail the wave, and count it in the wave's report."""
        self._collector.report_error(error)


class BaseWindowBolt(WindowsByKey):
    """A bolt that keeps a value for each key and window, and closes a window when its end has come.

    The key of a tuple is the value by which it was grouped. Within the lag, the order in which tuples arrive changes
    neither the windows nor what they contain. A window without tuples is not closed. Overrides of `prepare` must call
    `super().prepare`.

    Attributes:
        window: `Tumbling("1 h")`, `Sliding("10 min", every="1 min")` or `Session(gap="30 min")`.
        event_time: See `BaseStatefulBolt`. Without it, the time of a tuple is the clock of its wave.
        lag: See `BaseStatefulBolt`.
        lateness: How long a closed window can still change. A tuple that is behind the watermark by more goes to the
            late stream, and one that is not closes its window again, with `window.is_update`.
        late_stream: A declared stream for late tuples, with the fields of the input; None to drop them. The counter
            `late_tuples` of the bolt counts them.
    """

    @abstractmethod
    def create(self) -> Any:
        """Return the value of a new window: any value that a state takes."""

    @abstractmethod
    def add(self, value: Any, tup: Tuple) -> Any:
        """Return the value of a window with one more tuple. `value` may be changed and returned."""

    def merge(self, one: Any, other: Any) -> Any:
        """Return the combined value of two parts of a window; `one` is the earlier part. Change neither.

        Must be overridden for sessions: a tuple can join two. If it is overridden for sliding windows, a tuple is added
        once, and not to each window that contains it.
        """
        raise NotImplementedError

    @abstractmethod
    def close(self, key: Any, window: Window, value: Any, collector: WindowCollector) -> None:
        """Called when the end of a window has come, behind the tuples of a wave: emit its result.

        Called again, with `window.is_update`, for a window that has had late tuples since. Do not change `value`.
        """

    def key(self, tup: Tuple) -> Any:
        """Return the key of a tuple: by default the value by which it was grouped, None if by no field."""
        fields = self._fields[tup.source_component, tup.source_stream]
        return tup[fields[0]] if len(fields) == 1 else tuple(tup[field] for field in fields) or None

    @property
    def window_aggregate(self) -> Aggregate:
        """How the values of windows are made: by this bolt's own methods."""
        return self

    @property
    def can_merge(self) -> bool:
        """Whether `merge` is overridden."""
        return type(self).merge is not BaseWindowBolt.merge

    @property
    def needs_key(self) -> bool:
        """Whether `key` is not overridden."""
        return type(self).key is BaseWindowBolt.key

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector
        self._results = WindowCollector(collector)
        self._fields = context.grouping_fields
        self._late = context.register_counter("late_tuples")
        # The usual case, in which a tuple needs no look-up: one field, the same for all inputs.
        of_all = {fields for fields in self._fields.values() if len(fields) == 1}
        is_usual = len(of_all) == 1 == len(set(self._fields.values())) and self.needs_key
        self._field = of_all.pop()[0] if is_usual else None

    def execute(self, tup: Tuple) -> None:
        """Add a tuple to its windows. Not to be overridden."""
        timers = self._timers
        try:
            at = timers.now if self.event_time is None else tup[self.event_time]
            key = self.key(tup) if self._field is None else tup[self._field]
        except KeyError:
            if not tup.is_tick:
                raise
            self._collector.ack(tup)
            return
        if self.event_time is not None:
            if type(at) is not int:
                at = instant_ms(at)
            if timers.watermark is not None and at < timers.watermark - self._lateness_ms:
                self._late.inc()
                if self.late_stream is not None:
                    self._collector.emit(tup.values, anchors=tup, stream=self.late_stream)
                self._collector.ack(tup)
                return
        self._windows.add(key, at, tup)
        self._collector.ack(tup)

    def on_timer(self, timer: Timer) -> None:
        """Close a window. Not to be overridden."""
        self._results._timer = timer
        for key, window, value in self._windows.close(timer):
            self.close(key, window, value, self._results)

    def prefetch(self, batch: TupleBatch) -> None:
        """Read what a blob's tuples need, in few round trips. Called by the engine."""
        header = batch.header
        fields = self._fields.get((header.component, header.stream))
        if fields is None or not self.needs_key:
            return
        columns = [as_list(batch.columns[header.index[field]]) for field in fields]
        keys: Sequence[Any] = columns[0] if len(columns) == 1 else list(rows_of(batch.size, columns))
        if not columns:
            keys = [None] * batch.size
        times: Sequence[Any] = [self._timers.now] * batch.size
        if self.event_time is not None:
            times = as_list(batch.columns[header.index[self.event_time]])
            if set(map(type, times)) - {int}:
                return
        with suppress(UnsupportedValue):  # of a key that no state takes: `add` raises it again, with its tuple
            self._windows.prefetch(keys, times)
