"""A task may be behind with its timers, by their limit for a wave. The watermarks of the bolts after it wait for it."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector, OutputCollector
from anchorbolt.engine import LocalCluster
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.testing import ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseWindowBolt, BaseWindowedBolt, Tumbling, TupleWindow, Window

DEADLINE_S = 60
SECOND, MINUTE = 1000, 60_000


class Sums(BaseWindowBolt):
    event_time = "at"

    def __init__(self, window: Any) -> None:
        self.window = window

    def create(self) -> int:
        return 0

    def add(self, value: int, tup: Tuple) -> int:
        return value + int(tup["n"])

    def close(self, key: str, window: Window, value: int, collector: OutputCollector) -> None:
        collector.emit((key, window.start, value))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "at", "n")


class Numbers(BaseWindowedBolt):
    def prepare(self, conf: Any, context: Any, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, window: TupleWindow) -> None:
        self.collector.emit(("all", window.end_timestamp, len(window.get())), anchors=window)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "at", "n")


class Passes(BaseBasicBolt):
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit(("all", tup["at"], tup["n"]))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "at", "n")


def sums(batches: list[list[tuple[object, ...]]], first: Any, conf: dict[str, Any]) -> dict[int, int]:
    """Count the tuples of each minute: by second, then by minute."""
    minutes, hours, builder = TupleCapture(), TupleCapture(), TopologyBuilder()
    builder.set_spout("in", FeederSpout(["key", "at", "n"], batches))
    builder.set_bolt("seconds", first, 2).fields_grouping("in", "key")
    builder.set_bolt("passes", Passes(), 2).shuffle_grouping("seconds")
    builder.set_bolt("minutes", Sums(Tumbling("1 min")), 2).fields_grouping("passes", "key")
    builder.set_bolt("hours", Sums(Tumbling("1 h")), 2).fields_grouping("minutes", "key")
    builder.set_bolt("of-minutes", minutes).global_grouping("minutes")
    builder.set_bolt("of-hours", hours).global_grouping("hours")
    settings = {"topology.windows.close.when.empty": True, **conf}
    LocalCluster(clock=ManualClock()).submit(builder.create_topology("chain"), settings).await_termination(DEADLINE_S)
    of_hours = Counter[int]()
    for _, at, number in minutes.tuples:
        of_hours[at - at % (60 * MINUTE)] += number
    assert sorted(hours.tuples) == sorted(("all", at, number) for at, number in of_hours.items())
    return {at: number for _, at, number in minutes.tuples}


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 200)), max_size=40), max_size=4),
    leap=st.integers(0, 7200),
    most=st.integers(1, 5),
)
def test_windows_behind_windows_count_all(batches: list[list[tuple[str, int]]], leap: int, most: int) -> None:
    began, expected, made = 0, Counter[int](), []
    for batch in batches:
        made.append([(key, (began + at) * SECOND, 1) for key, at in batch])
        expected.update({at - at % MINUTE: 0 for _, at, _ in made[-1]})
        for _, at, number in made[-1]:
            expected[at - at % MINUTE] += number
        began += 200 + leap
    assert sums(made, Sums(Tumbling("1 s")), {"topology.timers.per.wave": most}) == expected


@pytest.mark.parametrize("every", [1, 10])
def test_windows_behind_those_of_a_whole_task_count_all(every: int) -> None:
    seconds = 2500
    rows = [("a", at * SECOND + 1, 1) for at in range(seconds)]
    rows += [("b", at * SECOND + 1, 1) for at in range(0, seconds, every)]
    rows.sort(key=lambda row: row[1])
    first = Numbers().with_tumbling_window("1 s").with_timestamp_field("at")
    found = sums([rows, [("a", 10**8, 1)]], first, {})
    assert sum(found.values()) == len(rows) + 1
