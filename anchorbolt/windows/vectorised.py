"""`BaseArrowWindowBolt`: a vectorised bolt that aggregates columns in windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.arrow import ArrowOutputCollector, BaseStatefulArrowBolt
from anchorbolt.errors import TopologyError
from anchorbolt.state_backends.timed.timers import Timer
from anchorbolt.streams.columns import as_arrow, as_list
from anchorbolt.streams.context import TopologyContext
from anchorbolt.util.messages import did_you_mean, shortened
from anchorbolt.util.times import instant_ms, instants_in
from anchorbolt.windows.aggregates import COUNT, FUNCTIONS, TIME, Aggregates, Parts
from anchorbolt.windows.by_key import WindowsByKey
from anchorbolt.windows.sessions import SessionWindows

if TYPE_CHECKING:
    import numpy
    import pyarrow

_MOST_WAITING = 1 << 17
_OF_A_WINDOW = ("start", "end", "is_update")


class BaseArrowWindowBolt(BaseStatefulArrowBolt, WindowsByKey):
    """A vectorised bolt that keeps aggregates for each key and window, and closes a window when its end has come.

    It is a `BaseWindowBolt` by columns: the same windows, the same stored bytes. One whose value is a count, or a list
    of several aggregates, may become the other and keep its open windows. Overrides of `prepare` must call
    `super().prepare`.

    Attributes:
        window: See `BaseWindowBolt`; so are `event_time`, `lag`, `lateness` and `late_stream`.
        aggregates: What is kept, by name: `"count"`, or a field of the input and `"sum"`, `"min"` or `"max"`, as in
            `{"visits": "count", "paid": ("amount", "sum")}`. A null is left out; the result for nulls alone is null.
            Ints are added exactly; a column of sums is of decimals if one needs more than 64 bits. Floats are added
            block by block, so the last bits of a sum may differ between runs.
        over_task: Whether a window has all tuples of a task, whatever the grouping. Otherwise its key is the value by
            which they are grouped.
    """

    aggregates: Mapping[str, str | tuple[str, str]]
    over_task: bool = False

    @abstractmethod
    def close_batch(self, closed: pyarrow.RecordBatch, collector: ArrowOutputCollector) -> None:
        """Called when the ends of windows have come, behind the blocks of a wave: emit their results, without parents.

        Called again for a window that has had late tuples since.

        Args:
            closed: A row for each window: the fields by which the input is grouped; `start` and `end`, in ms since
                1970, and `is_update`, as those of a `Window`; and the aggregates. Inputs that are grouped by fields of
                different names have the names of the first.
            collector: Emits blocks.
        """

    @property
    def window_aggregate(self) -> Aggregates:
        """How the values of windows are made."""
        return Aggregates(list(self.aggregates.values()))

    @property
    def needs_key(self) -> bool:
        """Whether the key of a tuple is the value by which it was grouped."""
        return not self.over_task

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Check the aggregates. Called by the engine. Raises `TopologyError` for one that is not known."""
        aggregates: object = getattr(self, "aggregates", None)
        if not isinstance(aggregates, Mapping) or not aggregates:
            raise TopologyError(
                f'has aggregates {shortened(aggregates)}. Set what a window keeps, by name: {{"visits": "count", '
                '"paid": ("amount", "sum")}.'
            )
        for name, each in aggregates.items():
            if not isinstance(name, str) or name in _OF_A_WINDOW:
                raise TopologyError(f"has an aggregate called {name!r}. Call it otherwise.")
            if each == COUNT:
                continue
            if not isinstance(each, tuple) or len(each) != 2 or each[1] not in FUNCTIONS:
                raise TopologyError(
                    f'has the aggregate {name!r}: {shortened(each)}. Set "count", or a field and one of '
                    f"{', '.join(FUNCTIONS)}."
                )
            for (component, stream), fields in inputs.items():
                if each[0] not in fields:
                    raise TopologyError(
                        f"has the aggregate {name!r} of the field {each[0]!r}, which stream {stream!r} of "
                        f"{component!r} does not declare.{did_you_mean(each[0], fields)} Its fields are: "
                        f"{', '.join(fields) or 'none'}."
                    )

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:  # type: ignore[override]
        self._aggregates = self.window_aggregate
        self._fields = context.grouping_fields
        self._late = context.register_counter("late_tuples")
        self._waiting: list[pyarrow.Table] = []
        self._rows = 0

    def execute_batch(self, batch: pyarrow.RecordBatch, collector: ArrowOutputCollector) -> None:
        """Add a block of tuples to their windows. Not to be overridden."""
        import numpy
        import pyarrow as pa

        kept, late = batch, None
        if self.event_time is None:
            times = numpy.full(batch.num_rows, self._timers.now)
        else:
            times = _times(batch[self.event_time])
            if self._timers.watermark is not None:
                is_late = times < self._timers.watermark - self._lateness_ms
                if is_late.any():
                    late = is_late.nonzero()[0]
                    kept, times = batch.filter(pa.array(~is_late)), times[~is_late]
        if kept.num_rows:
            self._wait(kept, times, collector)
        if late is not None:
            if self.late_stream is not None:
                collector.emit_batch(batch.take(pa.array(late)), parents=late, stream=self.late_stream)
            self._late.inc(len(late))

    def on_timers(self, timers: Sequence[Timer], collector: ArrowOutputCollector) -> None:
        """Close windows. Not to be overridden."""
        import pyarrow as pa

        closed = [each for timer in timers for each in self._windows.close(timer)]
        if not closed:
            return
        keys, windows, values = zip(*closed, strict=True)
        fields = () if self.over_task else next(iter(self._fields.values()))
        of_keys = [keys] if len(fields) == 1 else zip(*keys, strict=True) if fields else ()
        of_values = [values] if len(self.aggregates) == 1 else zip(*values, strict=True)
        columns = {
            **dict(zip(fields, map(list, of_keys), strict=True)),
            **{name: [getattr(window, name) for window in windows] for name in _OF_A_WINDOW},
            **dict(zip(self.aggregates, map(list, of_values), strict=True)),
        }
        self.close_batch(pa.RecordBatch.from_pydict({name: _column(each) for name, each in columns.items()}), collector)

    def flush_windows(self) -> None:
        """Put the windows that have changed into the state. Called by the engine, after a wave's blocks."""
        self._add()
        super().flush_windows()

    def _wait(self, batch: pyarrow.RecordBatch, times: numpy.ndarray, collector: ArrowOutputCollector) -> None:
        """Let a block wait for others of the wave: the more tuples there are of a key, the less there is to do."""
        fields = () if self.over_task else self._fields[collector.source_component, collector.source_stream]
        groups = [*(batch[field] for field in fields), times - times % self._windows.part_ms]
        table = self._aggregates.columns(batch, groups, times)
        if not self._waiting or table.schema != self._waiting[-1].schema:
            self._parts(table.slice(0, 1))  # to fail here and now if Arrow cannot group or aggregate such columns
            self._add()
        self._waiting.append(table)
        self._rows += len(table)
        if self._rows >= _MOST_WAITING:
            self._add()

    def _parts(self, table: pyarrow.Table) -> Parts:
        groups = table.schema.names.index(TIME)
        return self._aggregates.parts(table, groups, spans=isinstance(self._windows, SessionWindows))

    def _add(self) -> None:
        """Add the waiting tuples to their windows: those of one key, and of one part of its windows, together."""
        import pyarrow as pa

        if not self._waiting:
            return
        parts = self._parts(pa.concat_tables(self._waiting))
        self._waiting, self._rows = [], 0
        *columns, starts = parts.groups
        keys: Sequence[Any] = [None] * len(starts)
        if columns:
            keys = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        windows = self._windows
        windows.prefetch(keys, starts)
        if isinstance(windows, SessionWindows):
            for key, first, last, value in zip(keys, parts.firsts, parts.lasts, parts.values, strict=True):
                windows.add(key, first, value, last)
        else:
            for key, start, value in zip(keys, starts, parts.values, strict=True):
                windows.add(key, start, value)


def _column(values: list[Any]) -> pyarrow.Array:
    import pyarrow as pa

    try:
        return as_arrow(values)
    except OverflowError:  # a sum
        return pa.array(values, pa.decimal128(38, 0))


def _times(column: pyarrow.Array) -> numpy.ndarray:
    """Return event times as ms. Raises `ValueError` for one that is not a time."""
    import numpy

    instants = instants_in(column)
    return instants if instants is not None else numpy.array(list(map(instant_ms, as_list(column))), numpy.int64)
