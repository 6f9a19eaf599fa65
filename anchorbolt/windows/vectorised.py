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
from anchorbolt.windows.aggregates import COUNT, FUNCTIONS, Aggregates
from anchorbolt.windows.by_key import WindowsByKey
from anchorbolt.windows.sessions import SessionWindows

if TYPE_CHECKING:
    import numpy
    import pyarrow

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
            Ints are added exactly. Floats are added block by block, so the last bits of a sum may differ between runs.
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
    def aggregate(self) -> Aggregates:
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
        self._aggregates = self.aggregate
        self._fields = context.grouping_fields
        self._late = context.register_counter("late_tuples")

    def execute_batch(self, batch: pyarrow.RecordBatch, collector: ArrowOutputCollector) -> None:
        """Add a block of tuples to their windows. Not to be overridden."""
        import numpy

        if self.event_time is None:
            times = numpy.full(batch.num_rows, self._timers.now)
        else:
            times = _times(batch[self.event_time])
            if self._timers.watermark is not None:
                is_late = times < self._timers.watermark - self._lateness_ms
                if is_late.any():
                    batch, times = self._without(is_late, batch, collector), times[~is_late]
        if batch.num_rows:
            fields = () if self.over_task else self._fields[collector.source_component, collector.source_stream]
            self._add(batch, times, fields)

    def on_timers(self, timers: Sequence[Timer], collector: ArrowOutputCollector) -> None:
        """Close windows. Not to be overridden."""
        import pyarrow as pa

        self._windows.flush()
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
        self.close_batch(
            pa.RecordBatch.from_pydict({name: as_arrow(each) for name, each in columns.items()}), collector
        )

    def _without(
        self, is_late: numpy.ndarray, batch: pyarrow.RecordBatch, collector: ArrowOutputCollector
    ) -> pyarrow.RecordBatch:
        """Return a block without its late tuples, which go to the late stream."""
        import pyarrow as pa

        places = is_late.nonzero()[0]
        self._late.inc(len(places))
        if self.late_stream is not None:
            collector.emit_batch(batch.take(pa.array(places)), parents=places, stream=self.late_stream)
        return batch.filter(pa.array(~is_late))

    def _add(self, batch: pyarrow.RecordBatch, times: numpy.ndarray, fields: Sequence[str]) -> None:
        """Add tuples to their windows: those of one key, and of one part of its windows, together."""
        windows = self._windows
        starts = times - times % windows.part_ms
        groups = [*(batch[field] for field in fields), starts]
        parts = self._aggregates.parts(batch, groups, times if isinstance(windows, SessionWindows) else None)
        *columns, starts = parts.rows
        keys = (
            columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)) if columns else [None] * len(starts)
        )
        windows.prefetch(keys, starts)
        if isinstance(windows, SessionWindows):
            for key, first, last, value in zip(keys, parts.firsts, parts.lasts, parts.values, strict=True):
                windows.add(key, first, value, last)
        else:
            for key, start, value in zip(keys, starts, parts.values, strict=True):
                windows.add(key, start, value)


def _times(column: pyarrow.Array) -> numpy.ndarray:
    """Return event times as ms. Raises `ValueError` for one that is not a time."""
    import numpy

    instants = instants_in(column)
    return instants if instants is not None else numpy.array(list(map(instant_ms, as_list(column))), numpy.int64)
