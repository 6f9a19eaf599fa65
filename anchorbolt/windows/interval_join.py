"""`IntervalJoin`: joins two streams by a key and by event times that are near to each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, Timers
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer, check_name
from anchorbolt.streams.tuple import StreamHeader, Tuple
from anchorbolt.util.keys import check_hashable
from anchorbolt.util.times import NEVER, Duration, instant_ms, to_ms
from anchorbolt.windows.join_fields import Selection, check_join, parsed_field
from anchorbolt.windows.task_window import LATE_TUPLE_FIELD

J = TypeVar("J", bound="IntervalJoin")

_LEFT, _RIGHT = 0, 1


class IntervalJoin(Selection, BaseStatefulBolt[KeyValueState[Any, Any]]):
    """Joins tuples of two components with equal keys, if their event times are near to each other.

        IntervalJoin("orders", "id", "payments", "order_id", "at").between("-1 min", "10 min").select("id,amount")

    emits a row for each order and each of its payments whose time `at` is from 1 minute before to 10 minutes after that
    of the order, both included. It emits the row when the second of the two comes. The order in which tuples come does
    not change the rows, within the lag.

    Group both inputs by their keys. A tuple is kept in the state until the watermark has passed all tuples that could
    join with it, and is acked when it is kept. One entry has the tuples of a key and a side within one interval; all of
    them are written again when one is added, so this bolt is not for keys with thousands of tuples in an interval.
    Tuples whose key is None are dropped.

    Attributes:
        lag: As in `BaseStatefulBolt`.
        idle: As in `BaseStatefulBolt`.
        max_ahead: As in `BaseStatefulBolt`.
    """

    state_ttl = NEVER

    def __init__(self, left: str, left_key: str, right: str, right_key: str, timestamp_field: str) -> None:
        """Create a join.

        Args:
            left: The component that emits the first stream.
            left_key: Its field for the join.
            right: The component that emits the second stream.
            right_key: Its field for the join.
            timestamp_field: The field of both streams with the event time: ms since 1970, or an aware datetime.

        Raises:
            TopologyError: Both components are the same, or a field is not a name.
        """
        if left == right:
            raise TopologyError(f"IntervalJoin got {left!r} twice. Pass two components.")
        self._sides = left, right
        self._keys = parsed_field("IntervalJoin", left_key, left), parsed_field("IntervalJoin", right_key, right)
        self.event_time = timestamp_field
        self._bounds: tuple[int, int] | None = None
        self._late_stream: str | None = None

    def between(self: J, lower: Duration, upper: Duration) -> J:
        """Set how much later than the left tuple the right one may be, at least and at most. Returns the bolt.

        Args:
            lower: The least difference; may be negative, as in "-1 min" or `timedelta(minutes=-1)`.
            upper: The largest difference; may be negative too.

        Raises:
            TopologyError: One of them is not a duration, or `lower` is above `upper`.
        """
        try:
            bounds = _signed_ms(lower), _signed_ms(upper)
        except ValueError as error:
            raise TopologyError(f"between: {error}.") from None
        if bounds[0] > bounds[1]:
            raise TopologyError(f"between got {lower!r} and {upper!r}. Pass the lower bound first.")
        self._bounds = bounds
        return self

    def with_lag(self: J, lag: Duration) -> J:
        """Set how much later than a later one a tuple may come; see `lag` of `BaseStatefulBolt`. Returns the bolt."""
        self.lag = lag
        return self

    def with_late_tuple_stream(self: J, stream: str) -> J:
        """Emit each late tuple to this stream, as in `BaseWindowedBolt.with_late_tuple_stream`. Returns the bolt."""
        self._late_stream = check_name("stream", stream)
        return self

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Check that the bolt is complete, and that the streams and fields of the join exist."""
        if self._bounds is None or not self._selected:
            call = (
                "between, as in between('-1 min', '10 min')" if self._bounds is None else "select, as in select('id')"
            )
            raise TopologyError(f"is not complete. Call {call}.")
        check_join("component", inputs, self._sides, [*self._keys, *self._selected])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the selected fields, and the stream of late tuples."""
        super().declare_output_fields(declarer)
        if self._late_stream is not None:
            declarer.declare_stream(self._late_stream, LATE_TUPLE_FIELD)

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Called by the engine."""
        assert self._bounds is not None, "`check_inputs` refuses it"
        self._collector = collector
        self._lower, self._upper = self._bounds
        self._width = max(1, self._upper - self._lower)  # of an entry: what joins with a tuple is in two of them
        self._late = context.register_counter("late_tuples")

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Called by the engine."""
        self._state = state

    def init_timers(self, timers: Timers[Any]) -> None:
        """Called by the engine."""
        self._timers = timers

    def state_keys(self, tup: Tuple) -> Iterable[Any]:
        """Return the entries that have what joins with a tuple, and the one that keeps it."""
        if tup.is_tick:
            return ()
        side, key, at = self._place(tup)
        return [*self._others(side, key, at), (key, side, at // self._width)]

    def execute(self, tup: Tuple) -> None:
        """Called by the engine."""
        if not tup.is_tick:
            side, key, at = self._place(tup)
            watermark = self._timers.watermark
            if watermark is not None and at < watermark:
                self._late.inc()
                if self._late_stream is not None:
                    self._collector.emit((tup.as_dict(),), anchors=tup, stream=self._late_stream)
            elif key is not None:
                self._join(tup, side, key, at)
                self._keep(tup, side, key, at)
        self._collector.ack(tup)

    def on_timer(self, timer: Timer) -> None:
        """Called by the engine."""
        self._state.delete(timer.key)

    def _join(self, tup: Tuple, side: int, key: Any, at: int) -> None:
        earliest, latest = self._range(side, at)
        for entry in self._others(side, key, at):
            for other_at, stream, fields, values in self._state.get(entry, ()):
                if earliest <= other_at <= latest:
                    other = Tuple(tuple(values), StreamHeader(self._sides[1 - side], 0, stream, tuple(fields)))
                    pair = (tup, other) if side == _LEFT else (other, tup)
                    self._collector.emit(self._row(pair), anchors=tup, stream=self._output)

    def _keep(self, tup: Tuple, side: int, key: Any, at: int) -> None:
        number = at // self._width
        entry = key, side, number
        kept = self._state.get(entry)
        if kept is None:
            kept = []
            latest = self._range(side, (number + 1) * self._width)[1]  # of what joins with a tuple of the entry
            self._timers.set(entry, at=latest, clock="event")
        self._state.put(entry, [*kept, [at, tup.source_stream, list(tup.fields), list(tup.values)]])

    def _place(self, tup: Tuple) -> tuple[int, Any, int]:
        """Return the side, the key and the event time of a tuple."""
        side = _LEFT if tup.source_component == self._sides[_LEFT] else _RIGHT
        assert self.event_time is not None
        key = self._keys[side].value_of(tup)
        check_hashable(key)
        return side, key, instant_ms(tup[self.event_time])

    def _range(self, side: int, at: int) -> tuple[int, int]:
        """Return the first and the last event time that join with a tuple of a side."""
        return (at + self._lower, at + self._upper) if side == _LEFT else (at - self._upper, at - self._lower)

    def _others(self, side: int, key: Any, at: int) -> Iterator[Any]:
        earliest, latest = self._range(side, at)
        for number in range(earliest // self._width, latest // self._width + 1):
            yield key, 1 - side, number


def _signed_ms(duration: Duration) -> int:
    if isinstance(duration, timedelta) and duration < timedelta(0):
        return -to_ms(-duration)
    if isinstance(duration, str) and duration.strip().startswith("-"):
        return -to_ms(duration.strip()[1:])
    return to_ms(duration)
