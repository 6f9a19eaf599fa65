"""`BaseWindowedBolt` and `BaseStatefulWindowedBolt`: Storm's windows, over all tuples of a task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, Timers
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer, check_name
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import shortened
from anchorbolt.util.times import Duration, instant_ms, positive_ms, to_ms
from anchorbolt.windows.pages import RESERVED, PageStore, is_reserved
from anchorbolt.windows.task_windows import TaskWindows, TupleWindow, WindowSize

LATE_TUPLE_FIELD = "late_tuple"

_TTL_SETTING = "topology.state.ttl.secs"

B = TypeVar("B", bound="BaseWindowedBolt")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class _Windowing:
    """What the methods `with_…` have set."""

    size: WindowSize | None = None
    timestamp_field: str | None = None
    lag: Duration = "0 s"
    late_stream: str | None = None


class BaseWindowedBolt(Bolt):
    """A bolt that gets the tuples of a window together. Windows are over all tuples of a task.

    A window has a length and an interval, each a duration or a number of tuples: `with_window("10 min", "1 min")`,
    `with_window(count=10, every=5)`. `execute` is called for each window that has tuples.

    The tuples are kept in the state, and are acked when they are kept. So each tuple is in its windows exactly once,
    whatever fails, a window need not fit into memory, and no message times out because a window is long.

    Without a timestamp field, a tuple has the time of its wave's clock. A window by time ends at a multiple of the
    interval since 1970, and has the times from its start on, without its end. With a timestamp field, as in Storm, it
    has the times after its start up to its end, and fires once the watermark is later than its end; tuples are counted
    in the order of their event times. Which tuples are in which window then depends neither on the order in which they
    come, within the lag, nor on the waves. A window by a number of tuples fires at the end of the wave that brings its
    last tuple.

    Attributes:
        idle: As in `BaseStatefulBolt`.
        max_ahead: As in `BaseStatefulBolt`.
    """

    idle: Duration | None = None
    max_ahead: Duration = "1 d"

    _windowing = _Windowing()

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Called once for an instance, before its first window. Keep `collector`."""

    @abstractmethod
    def execute(self, window: TupleWindow) -> None:
        """Process a window; emit with `anchors=window`. If it raises, the wave is rolled back and tried again."""

    def with_window(
        self: B, length: Duration | int | None = None, every: Duration | int = 1, *, count: int | None = None
    ) -> B:
        """Set sliding windows; returns the bolt.

        Windows of a duration that have no tuples are left out. Windows of a number of tuples with an interval by time
        fire at each interval from the first tuple on, as in Storm, even if no tuple comes any more.

        Args:
            length: The length of a window: a duration, or a number of tuples.
            every: The interval between the ends of windows: a duration, or a number of tuples. By default, a window
                ends with each tuple. If it is longer than the windows, tuples between two windows are in none.
            count: The length as a number of tuples, instead of `length`.

        Raises:
            TopologyError: A value is neither a duration above zero nor a number of at least 1; or both `length` and
                `count` are given.
        """
        return self._with_size("with_window", _either("with_window", length, count), every)

    def with_tumbling_window(self: B, length: Duration | int | None = None, *, count: int | None = None) -> B:
        """Set windows that follow each other, so that each tuple is in one; otherwise like `with_window`."""
        length = _either("with_tumbling_window", length, count)
        return self._with_size("with_tumbling_window", length, length)

    def with_timestamp_field(self: B, field: str) -> B:
        """Take the time of a tuple from this field of each input stream: ms since 1970, or an aware datetime."""
        return self._with(timestamp_field=field)

    def with_lag(self: B, lag: Duration) -> B:
        """Set how much later than a later one a tuple may come; see `lag` of `BaseStatefulBolt`."""
        return self._with(lag=_checked("with_lag", lag, above_zero=False))

    def with_watermark_interval(self: B, interval: Duration) -> B:
        """Check the interval, and ignore it: the watermark advances with each wave. Only for topologies from Storm."""
        _checked("with_watermark_interval", interval)
        return self

    def with_late_tuple_stream(self: B, stream: str) -> B:
        """Emit each late tuple to this stream, which has one field, `late_tuple`: a dict of the values by field.

        A tuple is late if its event time is below the watermark. It is in no window. Without a stream it is dropped; it
        is counted in any case, in the metric `late_tuples`.
        """
        return self._with(late_stream=check_name("stream", stream))

    def as_executed(self) -> Bolt:
        """Return the bolt that the engine calls.

        Raises:
            TopologyError: No window is set, or there is a late stream but no timestamp field.
        """
        return WindowedBoltExecutor(self)

    def _with_size(self: B, call: str, length: Duration | int | None, every: Duration | int | None) -> B:
        if length is None:
            raise TopologyError(f"{call} got no length. Pass a duration such as '10 min', or count=10.")
        length_count, length_ms = _count_or_ms(call, length)
        every_count, every_ms = _count_or_ms(call, every)
        return self._with(size=WindowSize(length_count, length_ms, every_count, every_ms))

    def _with(self: B, **changed: Any) -> B:
        self._windowing = replace(self._windowing, **changed)
        return self


class BaseStatefulWindowedBolt(BaseWindowedBolt, Generic[K, V]):
    """A window bolt with a state of its own, besides the tuples of its windows.

    This state does not show the entries of the windows. Tools such as `anchorbolt state` do: their keys begin with
    "anchorbolt.window/".

    Attributes:
        state_schema_version: As in `BaseStatefulBolt`.
        state_ttl: As in `BaseStatefulBolt`; tuples of windows stay whatever it is.
    """

    state_schema_version: int = 1
    state_ttl: Duration | None = None

    @abstractmethod
    def init_state(self, state: KeyValueState[K, V]) -> None:
        """Called once for an instance, after `prepare` and before the first window. Keep `state`."""

    def upcast(self, key: Any, value: Any, version: int) -> Any:
        """Convert a value of an older schema, as in `BaseStatefulBolt`."""
        raise NotImplementedError(f"{type(self).__name__} does not override upcast for schema version {version}")


class OwnState(KeyValueState[K, V]):
    """The state of a task without the reserved entries of its windows.

    It shares all attributes with the state that it is made of: an update of one is an update of the other.
    """

    def __init__(self, state: KeyValueState[K, V]) -> None:
        self.__dict__ = state.__dict__

    def get(self, key: K, default: Any = None) -> Any:
        """Return a value; see `KeyValueState.get`."""
        _refuse_reserved(key)
        return super().get(key, default)

    def put(self, key: K, value: V, ttl: Duration | None = None) -> None:
        """Set a value; see `KeyValueState.put`."""
        _refuse_reserved(key)
        super().put(key, value, ttl=ttl)

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield all entries but the reserved ones; see `KeyValueState.items`."""
        return ((key, value) for key, value in super().items() if not is_reserved(key))


class WindowedBoltExecutor(BaseStatefulBolt[KeyValueState[Any, Any]]):
    """The bolt that the engine calls for a window bolt. It keeps the tuples, and calls `execute` for each window."""

    def __init__(self, bolt: BaseWindowedBolt) -> None:
        windowing, kind = bolt._windowing, type(bolt).__name__
        if windowing.size is None:
            raise TopologyError(
                f"{kind} has no window. Call with_window or with_tumbling_window before set_bolt, as in "
                f"{kind}().with_window('10 min', '1 min')."
            )
        if windowing.late_stream is not None and windowing.timestamp_field is None:
            raise TopologyError(
                f"{kind} has the late tuple stream {windowing.late_stream!r}, but no timestamp field, so no tuple is "
                "late. Call with_timestamp_field, or remove with_late_tuple_stream."
            )
        self.bolt = bolt
        self._size = windowing.size
        self._late_stream = windowing.late_stream
        self.event_time = windowing.timestamp_field
        self.lag, self.idle, self.max_ahead = windowing.lag, bolt.idle, bolt.max_ahead
        if isinstance(bolt, BaseStatefulWindowedBolt):
            self.state_schema_version, self.state_ttl = bolt.state_schema_version, bolt.state_ttl

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        if self._late_stream is not None:
            declarer.declare_stream(self._late_stream, LATE_TUPLE_FIELD)
        self.bolt.declare_output_fields(declarer)

    def get_component_configuration(self) -> Mapping[str, Any]:
        return self.bolt.get_component_configuration()

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        self.bolt.check_inputs(inputs)

    def cleanup(self) -> None:
        self.bolt.cleanup()

    def upcast(self, key: Any, value: Any, version: int) -> Any:
        if is_reserved(key) or not isinstance(self.bolt, BaseStatefulWindowedBolt):
            return value
        return self.bolt.upcast(key, value, version)

    def state_keys(self, tup: Tuple) -> Iterable[Any]:
        return ()

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector
        self._has_ttl = self.state_ttl is not None or bool(conf.get(_TTL_SETTING))
        self._late = context.register_counter("late_tuples") if self.event_time is not None else None
        self._fired = context.register_counter("windows_fired")
        self.bolt.prepare(conf, context, collector)

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self._store = PageStore(state, has_ttl=self._has_ttl)
        self._windows = TaskWindows(self._size, self._store, by_event_time=self.event_time is not None)
        if isinstance(self.bolt, BaseStatefulWindowedBolt):
            self.bolt.init_state(OwnState(state))

    def init_timers(self, timers: Timers[Any]) -> None:
        self._timers = timers
        self._clock: Any = "processing" if self.event_time is None else "event"
        self._due = timers.get(RESERVED)

    def execute(self, tup: Tuple) -> None:
        if self.event_time is None or tup.is_tick:
            if not tup.is_tick:
                self._windows.add(self._timers.now, tup)
        else:
            time, watermark = instant_ms(tup[self.event_time]), self._timers.watermark
            if watermark is None or time >= watermark:
                self._windows.add(time, tup)
            else:
                assert self._late is not None
                self._late.inc()
                if self._late_stream is not None:
                    self._collector.emit((tup.as_dict(),), anchors=tup, stream=self._late_stream)
        self._collector.ack(tup)

    def on_timer(self, timer: Timer) -> None:
        self._due = None
        if self.event_time is None:
            until: int | None = self._timers.now
        elif (until := self._timers.watermark) is not None:
            self._windows.release(until)
        if until is not None:
            self._fired.inc(self._windows.fire_timed(until, self.bolt.execute))

    def pre_prepare(self, txid: int) -> None:
        windows, watermark = self._windows, self._timers.watermark
        if self.event_time is not None and watermark is not None:
            windows.release(watermark, exactly=self._size.every_count is not None)
        self._fired.inc(windows.fire_counted(self.bolt.execute))
        windows.save()
        due = windows.next_due
        if due != self._due:
            self._due = due
            if due is None:
                self._timers.cancel(RESERVED)
            else:
                self._timers.set(RESERVED, at=due, clock=self._clock)


def _refuse_reserved(key: object) -> None:
    if is_reserved(key):
        raise UnsupportedValue(
            f"key {shortened(key)}: keys that begin with {RESERVED!r} are for the tuples of windows. Use another key."
        )


def _either(call: str, length: Duration | int | None, count: int | None) -> Duration | int | None:
    if length is not None and count is not None:
        raise TopologyError(f"{call} got the length {length!r} and count={count}. Pass one of them.")
    return length if count is None else count


def _count_or_ms(call: str, given: object) -> tuple[int | None, int | None]:
    if type(given) is int:
        if given < 1:
            raise TopologyError(f"{call} got the number of tuples {given}. Pass at least 1.")
        return given, None
    return None, to_ms(_checked(call, given))


def _checked(call: str, duration: Any, *, above_zero: bool = True) -> Duration:
    try:
        (positive_ms if above_zero else to_ms)(duration)
    except ValueError as error:
        raise TopologyError(f"{call}: {error}.") from None
    return duration  # type: ignore[no-any-return]
