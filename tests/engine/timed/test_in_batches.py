"""Timers, TTLs and windows of stateful bolts in a transactional topology: its waves are its batches."""

from typing import Any

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.testing import LocalCluster, ManualClock, TupleCapture
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import BaseWindowBolt, Tumbling
from tests.engine.timed.bolts import TimedBolt

DEADLINE_S = 30
ROWS: Any = [("a", 1), ("b", 12), ("a", 3), ("a", 25), ("b", 31), ("a", 50), ("a", 55), ("a", 90)]


class Late(TimedBolt):
    """Sets a timer by event time for each key, which fires with the batch that follows."""

    event_time = "at"
    state_ttl = "1 h"

    def execute(self, tup: Any) -> None:
        self.state.add(tup["key"], 1)
        self.timers.set(tup["key"], at=tup["at"] + 5, clock="event")

    def on_timer(self, timer: Any) -> None:
        self.collector.emit((self.collector.attempt, timer.key, timer.at, self.state.get(timer.key)))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "key", "at", "count")


class Sums(BaseWindowBolt):
    window = Tumbling("10 ms")
    event_time = "at"
    lag = "20 ms"

    def create(self) -> int:
        return 0

    def add(self, value: int, tup: Any) -> int:
        return value + int(tup["at"])

    def close(self, key: Any, window: Any, value: int, collector: Any) -> None:
        collector.emit((key, window.start, value))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("tx", "key", "start", "sum")


def run(bolt: BaseStatefulBolt[Any]) -> list[Any]:
    captured = TupleCapture()
    builder = TransactionalTopologyBuilder("batches", "in", MemoryTransactionalSpout({0: ROWS}, ["key", "at"], 2))
    builder.set_committer_bolt("bolt", bolt, 2).fields_grouping("in", "key")
    builder.set_bolt("out", captured).global_grouping("bolt")
    LocalCluster(clock=ManualClock()).submit(builder.build_topology()).await_termination(DEADLINE_S)
    return [row[1:] for row in captured.tuples]


def test_a_timer_fires_with_the_batch_after_the_watermark_has_reached_it() -> None:
    assert run(Late()) == [("b", 36, 2)]


def test_windows_close_with_a_batch() -> None:
    assert sorted(run(Sums())) == [("a", 0, 4), ("a", 20, 25), ("b", 10, 12)]
