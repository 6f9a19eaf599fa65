"""Windows of columns are those of rows: the same results, and the same bytes in the state."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import ArrowOutputCollector, BaseArrowBolt, BaseStatefulArrowBolt
from anchorbolt.errors import BoltError, TopologyError
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseArrowWindowBolt, BaseWindowBolt, Session, Sliding, Tumbling
from tests.windows.test_keyed_windows import DEADLINE_S, END, LAG, TIMES, WINDOWS, Configured

FIELDS = ("key", "at", "number")
RESULT = ("key", "start", "end", "is_update", "tuples", "total", "least", "most")
AGGREGATES = {"tuples": "count", "total": ("number", "sum"), "least": ("number", "min"), "most": ("number", "max")}


class Rows(Configured, BaseWindowBolt):
    event_time = "at"

    def create(self) -> Any:
        return None

    def add(self, value: Any, tup: Any) -> Any:
        number = tup["number"]
        return self.merge(value or [0, 0, number, number], [1, number, number, number])

    def merge(self, one: Any, other: Any) -> Any:
        return [one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])]

    def close(self, key: Any, window: Any, value: Any, collector: Any) -> None:
        collector.emit((key, window.start, window.end, window.is_update, *value))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(*RESULT)
        declarer.declare_stream("late", *FIELDS)


class Columns(Configured, BaseArrowWindowBolt):
    event_time = "at"
    aggregates: Any = AGGREGATES

    def close_batch(self, closed: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        collector.emit_batch(closed)

    def declare_output_fields(self, declarer: Any) -> None:
        of_key = () if self.over_task else ("key",)
        declarer.declare(*of_key, "start", "end", "is_update", *self.aggregates)
        declarer.declare_stream("late", *FIELDS)


def run(
    bolts: list[Any],
    batches: list[list[Any]],
    *,
    clock: ManualClock | None = None,
    tasks: int = 2,
    fields: Any = FIELDS,
) -> tuple[list[Any], list[Any], dict[Any, Any]]:
    """Run an equal share of the waves with each bolt in turn; return the results, the late tuples and the state."""
    results, late = TupleCapture(), TupleCapture()
    cluster = LocalCluster(clock=clock or ManualClock())
    size = -(-len(batches) // len(bolts))
    for number, bolt in enumerate(bolts):
        builder = TopologyBuilder()
        builder.set_spout("in", FeederSpout(list(fields), batches[number * size : (number + 1) * size]))
        builder.set_bolt("window", bolt, tasks).fields_grouping("in", "key")
        builder.set_bolt("results", results).global_grouping("window")
        builder.set_bolt("late", late).global_grouping("window", "late")
        handle = cluster.submit(builder.create_topology("windows"))
        handle.await_termination(DEADLINE_S)
    return sorted(results.tuples, key=repr), sorted(late.tuples, key=repr), dict(handle.state("window"))


@settings(max_examples=30)
@given(
    WINDOWS,
    TIMES,
    st.integers(1, 12),
    st.integers(0, 20),
    st.integers(0, LAG),
    st.booleans(),
    st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_rows_and_columns_give_the_same_results_and_may_take_turns(
    window: Any, times: Any, size: int, lateness: int, lag: int, closes: bool, columns: list[bool]
) -> None:
    rows = [(key, at, number) for number, (key, at, _) in enumerate(sorted(times, key=lambda each: each[1] + each[2]))]
    waves = [rows[start : start + size] for start in range(0, len(rows), size)]
    waves += [[("closing", END, 0)], [("closing", END, 0)]] if closes else []
    given: dict[str, Any] = {"lag": f"{lag} ms", "lateness": f"{lateness} ms", "late_stream": "late"}
    assert run([(Columns if each else Rows)(window, **given) for each in columns], waves) == run(
        [Rows(window, **given)] * len(columns), waves
    )


def test_by_the_waves_clock() -> None:
    clock = ManualClock()
    clock.advance(1)
    waves = [[("a", 0, 5), ("a", 0, 7)]]
    results, _, state = run([Columns(Tumbling("10 ms"), event_time=None)], waves, clock=clock)
    assert results == []
    assert list(state.values()) == [[2, 12, 5, 7]]


def test_a_session_has_tuples_that_come_in_blocks() -> None:
    rows = [("a", at, 1) for at in (0, 9, 18, 27, 40, 49)]
    results, *_ = run([Columns(Session("10 ms"), lag="1 s")], [rows[::-1], [("b", END, 0)], [("b", END, 0)]])
    assert [(key, start, end, each[0]) for key, start, end, _, *each in results] == [("a", 0, 37, 4), ("a", 40, 59, 2)]


def test_one_aggregate_is_stored_by_itself() -> None:
    _, _, state = run([Columns(Tumbling("10 ms"), aggregates={"tuples": "count"})], [[("a", 1, 5), ("a", 2, 5)]])
    assert state == {("a", 0): 2}


def test_sums_of_ints_do_not_wrap() -> None:
    large = (1 << 63) - 1
    _, _, state = run(
        [Columns(Tumbling("10 ms"), aggregates={"total": ("number", "sum")})], [[("a", 1, large), ("a", 2, large)]]
    )
    assert state == {("a", 0): 2 * large}


def test_a_sum_of_ints_may_need_more_than_64_bits() -> None:
    large = 1 << 62
    rows, _, _ = run([Columns(Tumbling("10 ms"))], [[("a", 1, large), ("a", 2, large)], [("a", 10, 1)], [("a", 20, 1)]])
    assert [row[5] for row in rows] == [Decimal(2 * large), 1]


def test_decimals_stay_decimals() -> None:
    waves = [[(Decimal(1), 1, Decimal(3)), (Decimal(1), 2, Decimal(4))]]
    _, _, state = run([Columns(Tumbling("10 ms"))], waves)
    [(key, value)] = state.items()
    assert (key, value) == ((Decimal(1), 0), [2, Decimal(7), Decimal(3), Decimal(4)])
    assert list(map(type, value)) == [int, Decimal, Decimal, Decimal]


def test_nulls_are_left_out() -> None:
    waves = [[("a", 1, None), ("b", 1, None), ("a", 2, 5)], [("a", 1, None), ("b", 1, 2)]]
    _, _, state = run([Columns(Tumbling("10 ms"), lag="1 s")], waves)
    assert state == {("a", 0): [3, 5, 5, 5], ("b", 0): [2, 2, 2, 2]}


class Encoded(BaseArrowBolt):
    """Emits columns with a dictionary of their own."""

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        collector.emit_batch(
            [batch["key"].dictionary_encode(), batch["at"], batch["number"].dictionary_encode()],
            parents=range(batch.num_rows),
        )

    def declare_output_fields(self, declarer: Any) -> None:
        of = {"key": pa.string(), "at": pa.int64(), "number": pa.int64()}
        kinds = [(name, kind if name == "at" else pa.dictionary(pa.int32(), kind)) for name, kind in of.items()]
        declarer.declare(pa.schema(kinds))


def test_blocks_may_have_different_dictionaries() -> None:
    builder = TopologyBuilder()
    for name, rows in {"one": [("a", 1, 5), ("b", 1, 6)], "two": [("c", 1, 7), ("a", 2, 8)]}.items():
        builder.set_spout(name, FeederSpout(list(FIELDS), [rows]))
        builder.set_bolt(f"{name}-encoded", Encoded()).shuffle_grouping(name)
    window = builder.set_bolt("window", Columns(Tumbling("10 ms")))
    window.fields_grouping("one-encoded", "key").fields_grouping("two-encoded", "key")
    handle = LocalCluster(clock=ManualClock()).submit(builder.create_topology("windows"))
    handle.await_termination(DEADLINE_S)
    assert dict(handle.state("window")) == {("a", 0): [2, 13, 5, 8], ("b", 0): [1, 6, 6, 6], ("c", 0): [1, 7, 7, 7]}


def test_timestamps_are_event_times() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    at = dt.datetime(1970, 1, 1, 2, 0, 0, 15_999, tzinfo=zone)
    _, _, state = run([Columns(Tumbling("10 ms"))], [[("a", at, 1), ("a", at, 2)]])
    assert state == {("a", 10): [2, 3, 1, 2]}


def test_a_far_future_time_does_not_move_the_watermark() -> None:
    far = 1 << 50
    results, late, _ = run(
        [Columns(Tumbling("10 ms"))], [[("a", far, 1), ("a", 15, 1)], [("a", 20, 1)], [("a", 20, 1)]]
    )
    assert [each[:3] for each in results] == [("a", 10, 20)]
    assert late == []


def test_windows_over_a_task() -> None:
    results, *_ = run(
        [Columns(Sliding("20 ms", every="10 ms"), over_task=True)],
        [[("a", 1, 5), ("b", 2, 6)], [("a", 40, 0)], [("a", 40, 0)]],
        tasks=1,
    )
    assert results == [(-10, 10, False, 2, 11, 5, 6), (0, 20, False, 2, 11, 5, 6)]


@pytest.mark.parametrize("at", [None, "noon", 1 << 60, (1 << 53) - 5, 1.5, dt.datetime(2026, 1, 1)])
def test_what_is_not_a_time_fails_with_its_tuple(at: Any) -> None:
    with pytest.raises(BoltError) as raised:
        run([Columns(Tumbling("10 ms"))], [[("a", at, 1)]])
    assert raised.value.component == "window"


@pytest.mark.parametrize(
    "attributes",
    [
        {"aggregates": {}},
        {"aggregates": "count"},
        {"aggregates": {"start": "count"}},
        {"aggregates": {"tuples": "counts"}},
        {"aggregates": {"total": ("number", "mean")}},
        {"aggregates": {"total": ("nmber", "sum")}},
        {"lateness": "-1 s"},
        {"late_stream": "latte"},
        {"window": None},
    ],
)
def test_wrong_attributes_are_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(TopologyError) as raised:
        run([Columns(**{"window": Tumbling("1 s"), **attributes})], [[]])
    assert raised.value.component == "window"


class Reminders(BaseStatefulArrowBolt):
    """Sets a timer for each key, and emits the keys of those that are due."""

    def init_state(self, state: Any) -> None:
        self.state = state

    def init_timers(self, timers: Any) -> None:
        self.timers = timers

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        for key, at in zip(batch["key"].to_pylist(), batch["at"].to_pylist(), strict=True):
            self.timers.set(key, at=at)

    def on_timers(self, timers: Any, collector: ArrowOutputCollector) -> None:
        self.state.add_array([timer.key for timer in timers], [1] * len(timers))
        collector.emit_batch([[timer.key for timer in timers], [timer.at for timer in timers]])

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("key", "at")
        declarer.declare_stream("late", *FIELDS)


def test_timers_of_a_vectorised_bolt_fire_together() -> None:
    clock = ManualClock()
    clock.advance(1)
    results, _, state = run([Reminders()], [[("a", 900, 0), ("b", 800, 0), ("c", 5_000, 0)]], clock=clock, tasks=1)
    assert results == [("a", 900), ("b", 800)]
    assert state == {"a": 1, "b": 1}


class OnTimer(Reminders):
    def on_timer(self, timer: Any) -> None:
        """Not for vectorised bolts."""


def test_on_timer_of_a_vectorised_bolt_is_refused() -> None:
    with pytest.raises(TopologyError) as raised:
        run([OnTimer()], [[]])
    assert raised.value.component == "window"
