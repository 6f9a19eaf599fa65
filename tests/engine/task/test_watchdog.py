"""A bolt that does not return is warned of, with its task, its tuple and the line where it is."""

import logging
import threading

import pytest

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector
from anchorbolt.engine import LocalCluster
from anchorbolt.streams import Tuple
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology
from tests.cli.command import wait_until
from tests.engine.jobs import one_bolt, run
from tests.support.programs import printed

CONF = {"topology.message.timeout.secs": 1, "topology.state.checkpoint.interval.ms": 100}
released = threading.Event()

# Looks at the threads when garbage with a `threading.local` is due to be collected.
LOOKS_DURING_A_COLLECTION = """
import gc, threading
from anchorbolt.engine.task.watchdog import long_calls

begun, end = threading.Event(), threading.Event()
threading.Thread(target=lambda: begun.set() or end.wait(), daemon=True).start()
begun.wait()
gc.disable()
cycle = [threading.local()]
cycle[0].value = 1
cycle.append(cycle)
del cycle
gc.set_threshold(1)
gc.enable()
long_calls("words")
print(gc.isenabled())
"""


class Stuck(BaseBasicBolt):
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if tup["number"] == 2:
            self.wait_for_somebody()

    def wait_for_somebody(self) -> None:
        released.wait(60)


class Busy(BaseBasicBolt):
    """Takes long altogether, but not for any tuple."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        threading.Event().wait(0.1)


def topology(bolt: BaseBasicBolt, tuples: int) -> Topology:
    return one_bolt(bolt, FeederSpout(["number"], [[(number,) for number in range(tuples)]]))


def test_the_warning_names_task_tuple_and_line_and_comes_again_and_only_a_worker_of_spark_is_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released.clear()
    handle = LocalCluster().submit(topology(Stuck(), 3), CONF | {"topology.task.timeout.secs": 1})

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "has been in" in record.getMessage()]

    wait_until(lambda: len(warnings()) == 2, "two warnings", 30)
    released.set()
    handle.await_termination(60)
    first, second = warnings()
    assert first.startswith("bolt 'bolt', task 0, has been in execute(Tuple(number=2; from 'spout'")
    assert "in wait_for_somebody" in first
    assert "released.wait(60)" in first
    assert "anchorbolt/engine" not in first
    assert second != first
    assert caplog.records[0].levelno == logging.WARNING


def test_a_task_that_is_only_slow_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    run(LocalCluster(), topology(Busy(), 25), CONF)
    assert caplog.records == []


@pytest.mark.slow
def test_a_run_tells_which_call_does_not_return_and_where_it_is() -> None:
    released.clear()
    handle = LocalCluster().submit(topology(Stuck(), 3), {"topology.state.checkpoint.interval.ms": 100})
    try:
        wait_until(lambda: bool(handle.observe().long_calls), "a call that does not return", 30)
        (call,) = handle.observe().long_calls
    finally:
        released.set()
    assert (call.kind, call.component, call.task_index, call.method) == ("bolt", "bolt", 0, "execute")
    assert call.seconds >= 2
    assert call.stack.startswith("  File ")
    assert "in wait_for_somebody" in call.stack
    assert handle.await_termination(60)
    assert handle.observe().long_calls == []


def test_looking_at_the_threads_blocks_nothing_when_garbage_is_collected() -> None:
    """It did in Python 3.11.7: the process stood still, with all its threads."""
    assert printed("-c", LOOKS_DURING_A_COLLECTION) == "True\n"
