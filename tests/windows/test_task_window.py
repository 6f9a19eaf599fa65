"""Storm's windows on `LocalCluster`: what `execute` gets, acks, late tuples, failures, restarts, large windows."""

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from anchorbolt.bolts import BaseRichBolt
from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import BoltError, StateError, TopologyError
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseStatefulWindowedBolt, BaseWindowedBolt, TupleWindow
from anchorbolt.windows.pages import PAGE_TUPLES, PageStore
from tests.engine.jobs import Committed
from tests.windows.model import windows

DEADLINE_S = 30
FIELDS = ("start", "end", "numbers", "new", "expired")


class Show(BaseWindowedBolt):
    """Emits what it gets of each window."""

    fails_once: list[int] = []  # noqa: RUF012 - shared by the instances of a test, which is what it is for

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, window: TupleWindow) -> None:
        parts = [[tup["number"] for tup in part] for part in (window.get(), window.get_new(), window.get_expired())]
        self.collector.emit((window.start_timestamp, window.end_timestamp, *parts), anchors=window)
        if any(number in self.fails_once for number in parts[0]):
            self.fails_once.clear()
            raise ValueError("once")

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(*FIELDS)


class Run:
    """A run that the test feeds, wave by wave."""

    def __init__(self, bolt: Bolt, cluster: LocalCluster, *, late: bool = False, **conf: Any) -> None:
        self.spout = FeederSpout(["number", "at"])
        self.captured, self.late, self.committed, self.waves = TupleCapture(), TupleCapture(), Committed(), 0
        builder = TopologyBuilder()
        builder.set_spout("in", self.spout)
        builder.set_bolt("window", bolt).shuffle_grouping("in")
        builder.set_bolt("out", self.captured).global_grouping("window")
        if late:
            builder.set_bolt("late", self.late).global_grouping("window", stream="late")
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        topology = builder.create_topology("windows")
        self.handle = cluster.submit(topology, settings, until_empty=False, on_wave=self.committed)

    def feed(self, *rows: Any, waves: int = 1) -> None:
        self.spout.feed([row if isinstance(row, tuple) else (row, row) for row in rows])
        self.wait(waves)

    def wait(self, waves: int = 1) -> None:
        self.waves += waves
        assert self.committed.wait_for(self.waves, DEADLINE_S), self.handle.status

    def stop(self) -> list[tuple[Any, ...]]:
        assert self.handle.stop(DEADLINE_S)
        return self.captured.tuples


def test_a_tumbling_window_by_count_goes_over_waves() -> None:
    run = Run(Show().with_tumbling_window(count=3), LocalCluster(clock=ManualClock()))
    run.feed(1, 2)
    run.feed(3, 4, 5, 6, 7)
    assert run.stop() == [(None, 0, [1, 2, 3], [1, 2, 3], []), (None, 0, [4, 5, 6], [4, 5, 6], [1, 2, 3])]


def test_a_sliding_window_by_count_shows_new_and_expired_tuples() -> None:
    run = Run(Show().with_window(count=3, every=2), LocalCluster(clock=ManualClock()))
    run.feed(1, 2, 3, 4, 5, 6)
    assert [row[2:] for row in run.stop()] == [
        ([1, 2], [1, 2], []),
        ([2, 3, 4], [3, 4], [1]),
        ([4, 5, 6], [5, 6], [2, 3]),
    ]


def test_a_window_without_an_interval_slides_with_each_tuple() -> None:
    run = Run(Show().with_window(count=2), LocalCluster(clock=ManualClock()))
    run.feed(1, 2, 3)
    assert [row[2] for row in run.stop()] == [[1], [1, 2], [2, 3]]


def test_a_window_by_the_clock_ends_at_a_multiple_of_its_interval_and_causes_a_wave() -> None:
    clock = ManualClock()
    run = Run(Show().with_window("10 s", "5 s"), LocalCluster(clock=clock))
    clock.advance(3)
    run.feed(1)
    clock.advance(2)
    run.wait()
    run.feed(2)
    clock.advance(5)
    run.wait()
    clock.advance(5)
    run.wait()
    clock.advance(60)
    run.feed(3)
    assert run.stop() == [(-5000, 5000, [1], [1], []), (0, 10_000, [1, 2], [2], []), (5000, 15_000, [2], [], [1])]


def test_lengths_and_intervals_of_different_kinds() -> None:
    clock = ManualClock()
    run = Run(Show().with_window("10 s", 2), LocalCluster(clock=clock))
    run.feed(1)
    clock.advance(9)
    run.feed(2, 3)
    clock.advance(1)
    run.feed(4)
    assert [row[2:] for row in run.stop()] == [([1, 2], [1, 2], []), ([2, 3, 4], [3, 4], [1])]
    run = Run(Show().with_window(count=2, every="10 s"), LocalCluster(clock=ManualClock()))
    run.feed(1, 2, 3)
    run.stop()


def test_windows_by_event_time_and_late_tuples() -> None:
    bolt = Show().with_window("10 s", "5 s").with_timestamp_field("at").with_lag("1 s").with_late_tuple_stream("late")
    run = Run(bolt.with_watermark_interval("100 ms"), LocalCluster(clock=ManualClock()), late=True)
    run.feed((1, 4000), (2, datetime.fromtimestamp(5, timezone.utc)), (3, 9000), waves=2)
    assert run.captured.tuples == [(-5000, 5000, [1, 2], [1, 2], [])], "a time that is the end is in the window"
    run.feed((4, 7999), (5, 8000), (6, 16_500), waves=2)
    assert run.stop()[1:] == [(0, 10_000, [1, 2, 5, 3], [5, 3], []), (5000, 15_000, [5, 3], [], [1, 2])]
    assert run.late.tuples == [({"number": 4, "at": 7999},)]


def test_a_tuple_for_an_earlier_window_moves_the_timer() -> None:
    bolt = Show().with_tumbling_window("1 s").with_timestamp_field("at").with_lag("10 s")
    run = Run(bolt, LocalCluster(clock=ManualClock()))
    run.feed((1, 5500))
    run.feed((2, 2500))
    run.feed((3, 13_500), waves=2)
    assert [row[1:3] for row in run.captured.tuples] == [(3000, [2])]
    run.stop()


def test_a_late_tuple_without_a_stream_is_dropped_and_counted() -> None:
    run = Run(Show().with_tumbling_window("1 s").with_timestamp_field("at"), LocalCluster(clock=ManualClock()))
    run.feed((1, 500), (2, 5000), waves=2)
    run.feed((3, 900))
    run.feed((4, 9500), waves=2)
    registry = CollectorRegistry()
    registry.register(run.handle.collector())
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    assert [row[2] for row in run.stop()] == [[1], [2]]
    counted = {sample.name: sample.value for sample in samples if "late_tuples_total" in sample.name}
    assert list(counted.values()) == [1], sorted({sample.name for sample in samples})


def test_the_topology_is_described_with_the_class_of_the_author() -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["number", "at"]))
    builder.set_bolt("window", Show().with_window(count=2)).shuffle_grouping("in")
    builder.set_bolt("out", TupleCapture()).global_grouping("window")
    assert "(Show" in builder.create_topology("windows").describe()


def test_at_most_a_thousand_windows_fire_in_a_wave_and_waves_follow_until_none_is_left() -> None:
    run = Run(Show().with_window("3 s", "1 ms").with_timestamp_field("at"), LocalCluster(clock=ManualClock()))
    run.feed((1, 1000), (2, 10_000), waves=4)
    assert [row[1] for row in run.stop()] == list(range(1000, 4000))
    assert [len(wave) for wave in run.captured.waves.values()] == [1000, 1000, 1000]


def test_a_bolt_may_get_another_window_but_not_another_kind_of_time() -> None:
    clock = ManualClock()
    cluster = LocalCluster(clock=clock)
    run = Run(Show().with_window(count=2, every=2), cluster)
    run.feed(1, 2, 3)
    rows = run.stop()
    run = Run(Show().with_tumbling_window("2 s"), cluster)
    clock.advance(1)
    run.feed(4)
    clock.advance(1)
    run.wait()
    rows += run.stop()
    run = Run(Show().with_window(count=3, every=1), cluster)
    run.feed(5)
    rows += run.stop()
    assert [row[2:] for row in rows] == [([1, 2], [1, 2], []), ([1, 2, 3, 4], [3, 4], []), ([3, 4, 5], [5], [1, 2])]
    run = Run(Show().with_window(count=3).with_timestamp_field("at"), cluster, topology_max_batch_retries=0)
    run.spout.feed([(6, 6)])
    with pytest.raises(StateError, match="give the bolt another id"):
        run.handle.await_termination(DEADLINE_S)


def test_a_failed_wave_leaves_no_trace_and_windows_outlive_a_run() -> None:
    """STORM-1175: a window bolt lost what it had, when it failed or was restarted."""
    cluster = LocalCluster(clock=ManualClock())
    Show.fails_once[:] = [4]
    run = Run(Show().with_window(count=4, every=2), cluster)
    run.feed(1, 2, 3)
    run.feed(4, 5)
    assert Show.fails_once == []
    assert [row[2] for row in run.stop()] == [[1, 2], [1, 2, 3, 4]]
    run = Run(Show().with_window(count=4, every=2), cluster)
    run.feed(6)
    assert [row[2:] for row in run.stop()] == [([3, 4, 5, 6], [5, 6], [1, 2])]


def test_no_tuple_is_in_two_tumbling_windows_or_in_a_wrong_one() -> None:
    """STORM-2489: windows of overlapping tuples, when much came between two of them."""
    clock, cluster, expected = ManualClock(), LocalCluster(clock=ManualClock()), list[int]()
    cluster = LocalCluster(clock=clock)
    rows: list[Any] = []
    for start in range(0, 900, 300):
        run = Run(Show().with_tumbling_window("2 s"), cluster)
        for first in range(start, start + 300, 100):
            run.feed(*range(first, first + 100))
            expected += range(first, first + 100)
            clock.advance(0.7)
        rows += run.stop()
    clock.advance(10)
    run = Run(Show().with_tumbling_window("2 s"), cluster)
    run.wait()
    rows += run.stop()
    assert [number for row in rows for number in row[2]] == expected
    assert [row[2] for row in rows] == [row[3] for row in rows]
    assert [row[4] for row in rows] == [[], *(row[2] for row in rows[:-1])]
    assert all(end - start == 2000 and end % 2000 == 0 for start, end, *_ in rows)


batches = st.lists(st.lists(st.integers(0, 5000), min_size=1, max_size=30), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(batches=batches, restarts=st.sets(st.integers(0, 5)), fails=st.integers(0, 200), every=st.sampled_from([700, 3]))
def test_a_run_with_failures_and_restarts_has_the_windows_of_their_definition(
    batches: Any, restarts: set[int], fails: int, every: int
) -> None:
    def bolt() -> BaseWindowedBolt:
        windowed = Show().with_window("1 s", every if every == 3 else "700 ms")
        return windowed.with_timestamp_field("at").with_lag("10 s")

    Show.fails_once[:] = [fails]
    cluster, times, fired = LocalCluster(clock=ManualClock()), list[int](), list[Any]()
    run = Run(bolt(), cluster)
    for place, batch in enumerate(batches):
        run.feed(*enumerate(batch, len(times)))
        times += batch
        if place in restarts:
            fired += run.stop()
            run = Run(bolt(), cluster)
    run.feed((len(times), 20_000), waves=2)
    fired += run.stop()
    Show.fails_once.clear()
    size = bolt()._windowing.size
    assert size is not None
    assert fired == windows(size, [*times, 20_000], 10_000, by_event_time=True)


class Sums(BaseStatefulWindowedBolt[Any, Any]):
    """Sums the numbers of each window, and all of them by their remainder."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.sums = state

    def execute(self, window: TupleWindow) -> None:
        for tup in window.get_new():
            self.sums.add(tup["number"] % 2, tup["number"])
        entries = sorted(self.sums.items())
        assert len(self.sums) == len(entries)
        self.collector.emit((sum(tup["number"] for tup in window.get()), entries), anchors=window)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("sum", "sums")


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_a_stateful_window_bolt_sees_its_own_entries_only_and_its_ttl_does_not_touch_the_window(codec: str) -> None:
    clock = ManualClock()
    serializers = {"keySerializerClass": codec, "valueSerializerClass": codec}
    conf: Any = {"topology_state_ttl_secs": 100, "topology_state_provider_config": serializers}
    cluster = LocalCluster(clock=clock)
    run = Run(Sums().with_window(count=4, every=2), cluster, **conf)
    run.feed(1, 2, 3)
    assert run.stop() == [(3, [(0, 2), (1, 1)])]
    clock.advance(200)
    run = Run(Sums().with_window(count=4, every=2), cluster, **conf)
    run.feed(4)
    assert run.stop() == [(10, [(0, 4), (1, 3)])], "its own entries have expired"
    state = run.handle.state("window")
    assert {key: value for key, value in state.items() if not str(key).startswith("anchorbolt.window/")} == {0: 4, 1: 3}


class Collides(Sums):
    def execute(self, window: TupleWindow) -> None:
        self.sums.put("anchorbolt.window/page/0", 1)


def test_a_reserved_key_is_refused() -> None:
    run = Run(Collides().with_window(count=1), LocalCluster(), topology_max_batch_retries=0)
    run.spout.feed([(1, 1)])
    with pytest.raises(BoltError, match="are for the tuples of windows"):
        run.handle.await_termination(DEADLINE_S)


class Keeps(Show):
    kept: Any = None

    def execute(self, window: TupleWindow) -> None:
        if self.kept is not None:
            list(self.kept)
        self.kept = window.get()


def test_tuples_of_a_window_cannot_be_read_after_execute() -> None:
    run = Run(Keeps().with_window(count=1), LocalCluster(), topology_max_batch_retries=0)
    run.spout.feed([(1, 1), (2, 2)])
    with pytest.raises(Exception, match="after `execute` had returned"):
        run.handle.await_termination(DEADLINE_S)


class Count(Show):
    reads: list[int] = []  # noqa: RUF012 - shared by the instances of a test

    def execute(self, window: TupleWindow) -> None:
        store: PageStore = window.get()._log._store
        before = store.reads
        assert sum(1 for _ in window.get()) == len(window.get())
        Count.reads.append(store.reads - before)
        assert len(window.get()._log._kept) <= 4
        self.collector.emit((0, 0, len(window.get()), [], []), anchors=window)


def test_a_large_window_is_read_page_by_page() -> None:
    Count.reads.clear()
    run = Run(Count().with_tumbling_window(count=20_000), LocalCluster(clock=ManualClock()))
    for start in range(0, 20_000, 5000):
        run.feed(*range(start, start + 5000))
    assert run.stop() == [(0, 0, 20_000, [], [])]
    assert 20_000 // PAGE_TUPLES - 4 <= Count.reads[-1] <= 20_000 // PAGE_TUPLES + 1


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_a_page_of_large_tuples_is_kept_in_entries_that_each_store_takes(codec: str) -> None:
    large, cluster = "x" * 40_000, LocalCluster(clock=ManualClock())
    serializers = {"keySerializerClass": codec, "valueSerializerClass": codec}
    conf: Any = {"topology_state_provider_config": serializers}
    run = Run(Show().with_tumbling_window(count=200), cluster, **conf)
    run.feed(*((number, large) for number in range(150)))
    assert run.stop() == []
    kept = [value for value in run.handle.state("window").values() if isinstance(value, str | bytes)]
    assert sum(map(len, kept)) > 150 * len(large)
    assert max(map(len, kept)) < 2_000_000, "what the framed transport of HBase takes"
    run = Run(Show().with_tumbling_window(count=200), cluster, **conf)
    run.feed(*((number, large) for number in range(150, 410)))
    assert [row[2:] for row in run.stop()] == [
        ([*range(200)], [*range(200)], []),
        ([*range(200, 400)], [*range(200, 400)], [*range(200)]),
    ]
    pages = {key.split("/")[2] for key in run.handle.state("window") if key.startswith("anchorbolt.window/page/")}
    assert pages == {"1", "2", "3"}


class Messages(BaseRichSpout):
    """Emits ten messages, and notes those that are acked."""

    acked: list[int] = []  # noqa: RUF012 - shared with the test

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0

    def next_tuple(self) -> None:
        if self.next < 10:
            self.collector.emit((self.next, 0), msg_id=self.next)
            self.next += 1

    def ack(self, message_id: Any) -> None:
        Messages.acked.append(message_id)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number", "at")


class Pass(BaseRichBolt):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(*FIELDS)


def test_messages_are_acked_when_the_window_has_kept_them() -> None:
    Messages.acked.clear()
    captured = TupleCapture()
    builder = TopologyBuilder()
    builder.set_spout("in", Messages())
    builder.set_bolt("window", Show().with_tumbling_window(count=4)).shuffle_grouping("in")
    builder.set_bolt("pass", Pass()).shuffle_grouping("window")
    builder.set_bolt("out", captured).global_grouping("pass")
    LocalCluster().submit(builder.create_topology("messages")).await_termination(DEADLINE_S)
    assert sorted(Messages.acked) == list(range(10)), "also those of the window that is open"
    assert [row[2] for row in captured.tuples] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_windows_of_a_count_at_an_interval_are_closed_at_the_end() -> None:
    captured, builder = TupleCapture(), TopologyBuilder()
    builder.set_spout("in", FeederSpout(["number", "at"], [[(1, 100), (2, 1500), (3, 9500)]]))
    bolt = Show().with_window(count=2, every="1 s").with_timestamp_field("at")
    builder.set_bolt("window", bolt).shuffle_grouping("in")
    builder.set_bolt("out", captured).global_grouping("window")
    conf = {"topology.windows.close.when.empty": True}
    LocalCluster(clock=ManualClock()).submit(builder.create_topology("end"), conf).await_termination(DEADLINE_S)
    assert [row[2] for row in captured.tuples][-1] == [2, 3]
    assert {row[1] for row in captured.tuples} <= {end * 1000 for end in range(1, 11)}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda bolt: bolt.with_window(count=0),
        lambda bolt: bolt.with_window("10 parsecs"),
        lambda bolt: bolt.with_window("10 s", "0 s"),
        lambda bolt: bolt.with_window(every=3),
        lambda bolt: bolt.with_window("1 s", count=3),
        lambda bolt: bolt.with_tumbling_window("1 s", count=3),
        lambda bolt: bolt.with_window(1.5),
        lambda bolt: bolt.with_window(True),
        lambda bolt: bolt.with_tumbling_window(),
        lambda bolt: bolt.with_window(count=1).with_lag("-1 s"),
        lambda bolt: bolt.with_window(count=1).with_watermark_interval("0 s"),
        lambda bolt: bolt.with_window(count=1).with_late_tuple_stream("a b"),
        lambda bolt: bolt.with_window(count=1).with_late_tuple_stream("late"),
        lambda bolt: bolt.with_window(count=1).with_timestamp_field("no"),
        lambda bolt: bolt,
    ],
)
def test_a_wrong_window_is_refused_when_the_topology_is_built(wrong: Any) -> None:
    with pytest.raises(TopologyError):
        Run(wrong(Show()), LocalCluster())
