"""The watermark of a bolt with event time, and its timers: exact, replayed, and of the slowest stream."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.checkpoint.times import BoltTimes, EventTime, TimesOfWave
from anchorbolt.errors import BoltError
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import Committed
from tests.engine.timed.bolts import TimedBolt

DEADLINE_S = 30


class Watch(TimedBolt):
    """Sets a timer at the event time of each tuple, and emits it with the watermark at which it fires."""

    fields = ("number", "at", "watermark")
    event_time = "at"

    def execute(self, tup: Any) -> None:
        self.timers.set(tup["number"], at=tup["at"], clock="event")
        self.collector.ack(tup)

    def on_timer(self, timer: Any) -> None:
        self.collector.emit((timer.key, timer.at, self.timers.watermark), anchors=timer)


class Run:
    """Two feeders before a bolt of two tasks."""

    def __init__(self, cluster: LocalCluster, retries: int = 3, **attributes: Any) -> None:
        bolt = Watch()
        for name, value in attributes.items():
            setattr(bolt, name, value)
        self.spouts = FeederSpout(["number", "at"]), FeederSpout(["number", "at"])
        self.captured, self.committed, self.waves = TupleCapture(), Committed(), 0
        builder = TopologyBuilder()
        builder.set_spout("one", self.spouts[0])
        builder.set_spout("other", self.spouts[1])
        builder.set_bolt("watch", bolt, 2).fields_grouping("one", "number").fields_grouping("other", "number")
        builder.set_bolt("out", self.captured).global_grouping("watch")
        conf = {"topology.max.batch.retries": retries}
        topology = builder.create_topology("events")
        self.handle = cluster.submit(topology, conf, until_empty=False, on_wave=self.committed)

    def feed(self, one: Any = (), other: Any = (), waves: int = 1) -> list[tuple[Any, ...]]:
        """Feed both spouts; return what the bolt has emitted since the last call."""
        before = len(self.captured.tuples)
        for spout, rows in zip(self.spouts, (one, other), strict=True):
            if rows:
                spout.feed(list(rows))
        self.waves += waves
        assert self.committed.wait_for(self.waves, DEADLINE_S), self.handle.status
        return sorted(self.captured.tuples[before:])

    def stop(self) -> None:
        assert self.handle.stop(DEADLINE_S)


def test_the_watermark_is_the_largest_event_time_of_the_slowest_stream_less_the_lag() -> None:
    run = Run(LocalCluster(clock=ManualClock()), lag="1 s")
    assert run.feed(one=[(1, 1_000), (2, 9_000)]) == []
    assert run.feed(other=[(3, 2_000)], waves=2) == [(1, 1_000, 1_000)]
    assert run.feed(other=[(4, 5_500), (5, 5_000)], waves=2) == [(3, 2_000, 4_500)]
    assert run.feed(other=[(6, 3_000)]) == [(6, 3_000, 4_500)], "below the watermark: at the end of its wave"
    assert run.feed(other=[(7, 20_000)], waves=2) == [(4, 5_500, 8_000), (5, 5_000, 8_000)]
    run.stop()


def test_a_watermark_outlives_a_run_and_never_goes_back() -> None:
    cluster = LocalCluster(clock=ManualClock())
    run = Run(cluster)
    run.feed(one=[(1, 5_000)], other=[(2, 7_000), (9, 5_500)], waves=2)
    run.stop()
    run = Run(cluster, lag="3 s")
    assert run.feed(one=[(3, 4_000)]) == [(3, 4_000, 5_000)]
    assert run.feed(one=[(4, 9_000)], waves=1) == []
    assert run.feed(other=[(5, 9_000)], waves=2) == [(9, 5_500, 6_000)]
    run.stop()


def test_an_idle_stream_does_not_hold_the_watermark_back() -> None:
    clock = ManualClock()
    run = Run(LocalCluster(clock=clock), idle="10 s")
    assert run.feed(one=[(1, 1_000)], other=[(2, 500)], waves=2) == [(2, 500, 500)]
    clock.advance(9)
    assert run.feed(one=[(3, 2_000)]) == []
    clock.advance(1)
    assert run.feed(one=[(4, 3_000)], waves=2) == [(1, 1_000, 3_000), (3, 2_000, 3_000), (4, 3_000, 3_000)]
    assert run.feed(other=[(5, 1_500)]) == [(5, 1_500, 3_000)]
    run.stop()


def test_a_time_in_the_far_future_does_not_move_the_watermark() -> None:
    run = Run(LocalCluster(clock=ManualClock()), max_ahead="1 h")
    far = int(datetime.now(timezone.utc).timestamp() * 1000) + 7_200_000
    assert run.feed(one=[(1, 1_000), (2, far)], other=[(3, 2_000)], waves=2) == [(1, 1_000, 1_000)]
    assert run.feed(one=[(4, far)]) == []
    assert run.feed(one=[(5, 3_000)], waves=2) == [(3, 2_000, 2_000)]
    run.stop()


def test_event_times_may_be_aware_datetimes() -> None:
    run = Run(LocalCluster(clock=ManualClock()))
    at = datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert run.feed(one=[(1, at)], other=[(2, at)], waves=2) == [(1, 1_000, 1_000), (2, 1_000, 1_000)]
    run.stop()


@pytest.mark.parametrize("wrong", [None, "10:00", 1.5, datetime(2026, 1, 1), True, 1 << 60, (1 << 53) - 5])
def test_a_wrong_event_time_is_an_error_that_names_the_field_and_the_tuple(wrong: Any) -> None:
    run = Run(LocalCluster(), retries=0)
    run.spouts[0].feed([(1, 1_000), (77, wrong)])
    with pytest.raises(BoltError, match="'at'") as caught:
        run.handle.await_termination(DEADLINE_S)
    assert (caught.value.component, "77" in str(caught.value.tuple_text)) == ("watch", True)


STREAMS = ("one", "default"), ("other", "default")


@settings(max_examples=200, deadline=None)
@given(
    waves=st.lists(
        st.tuples(st.integers(0, 50), st.dictionaries(st.sampled_from(STREAMS), st.integers(-1000, 1000), max_size=2)),
        max_size=20,
    ),
    lag=st.integers(0, 100),
    idle=st.one_of(st.none(), st.integers(1, 100)),
)
def test_the_watermark_follows_its_definition(waves: Any, lag: int, idle: int | None) -> None:
    event_time = EventTime(STREAMS, lag, idle)
    times, clock, seen, since, expected = BoltTimes(), 0, dict[Any, int](), dict[Any, int](), None
    for step, latest in waves:
        clock += step
        times = BoltTimes.decode(times.after(clock, TimesOfWave(seen=latest), event_time).encode())
        for stream in STREAMS:
            if stream in latest:
                seen[stream] = max(latest[stream], seen.get(stream, latest[stream]))
            if stream in latest or stream not in since:
                since[stream] = clock
        active = [stream for stream in STREAMS if idle is None or clock - since[stream] < idle]
        holding = active or ([max(seen, key=lambda each: seen[each])] if seen else [])
        if holding and all(stream in seen for stream in holding):
            reached = min(seen[stream] for stream in holding) - lag
            expected = reached if expected is None else max(expected, reached)
        assert times.watermark == expected
