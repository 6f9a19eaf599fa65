"""Time-outs of tuple trees, by a clock that the tests move."""

from collections.abc import Mapping
from typing import Any

import pytest

from anchorbolt.engine import RunHandle
from anchorbolt.testing import LocalCluster, ManualClock
from anchorbolt.topology import Topology
from anchorbolt.tracking.settlements import FailedTree
from tests.engine.jobs import chain
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt


class KeepsFirst(RichBolt):
    """Keeps the word "keep" the first time that it comes, gives it its whole time again on "reset", acks all others."""

    def __init__(self, by: str = "tuple") -> None:
        self.by = by

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.kept: Any = None

    def execute(self, tup: Any) -> None:
        if tup["word"] == "keep" and self.kept is None:
            self.kept = tup
            return
        if tup["word"] == "reset":
            self.collector.reset_timeout(self.kept if self.by == "tuple" else self.kept.handle)
        self.collector.ack(tup)


def keeping(*, by: str = "tuple", replay: bool = False) -> Topology:
    return chain("keeping", {"in": QueueSpout("word", replay=replay), "keeps": KeepsFirst(by)})


class Waves:
    """A run whose waves come one by one, by a clock that stands still meanwhile."""

    def __init__(self, topology: Topology, conf: Mapping[str, Any] | None = None) -> None:
        self.clock = ManualClock()
        self.handle: RunHandle = LocalCluster(clock=self.clock).submit(topology, conf, until_empty=False)
        self.sent = 0

    def emit(self, word: str) -> None:
        """Emit a word; return when its wave has committed."""
        before = self.tuples
        self.sent += 1
        MESSAGES.append((self.sent, (word,)))
        while self.tuples == before:
            assert not self.handle.await_termination(0.01)

    @property
    def tuples(self) -> int:
        return sum(report.tuples_in["keeps"] for report in self.handle.reports)

    @property
    def failed(self) -> int:
        """The number of messages that have failed by the last wave."""
        return sum(sum(report.messages_failed.values()) for report in self.handle.reports)


def test_a_time_out_goes_by_the_clock_and_names_who_held_the_tree(caplog: pytest.LogCaptureFixture) -> None:
    waves = Waves(keeping(replay=True))
    waves.emit("keep")
    waves.clock.advance(29.9)
    waves.emit("other")
    assert waves.failed == 0
    waves.clock.advance(0.2)
    jobs.wait_for(lambda: sorted(ACKED) == [1, 2])
    assert FAILED == [1]
    assert any("'keeps', task 0" in record.getMessage() for record in caplog.records)
    assert waves.handle.stop(30)
    [failure] = [failure for report in waves.handle.reports for failure in report.failures]
    assert "timed out" in failure.reason
    assert failure == FailedTree("in", 1, "keeps", 0, failure.reason, timed_out=True)
    assert waves.handle.observe().figures.timed_out == {("in", ("keeps", 0)): 1}
    assert waves.handle.observe().oldest_message_s == 0


@pytest.mark.parametrize("by", ["tuple", "handle"])
def test_reset_timeout_gives_a_tree_of_an_earlier_wave_the_whole_time_again(by: str) -> None:
    waves = Waves(keeping(by=by))
    waves.emit("keep")
    waves.clock.advance(20)
    waves.emit("reset")
    for seconds in (15, 14.9):  # 35 s and 49.9 s after the first commit
        waves.clock.advance(seconds)
        waves.emit("other")
        assert waves.failed == 0
    waves.clock.advance(0.2)
    jobs.wait_for(lambda: FAILED)
    assert FAILED == [1]
    assert waves.handle.stop(30)
