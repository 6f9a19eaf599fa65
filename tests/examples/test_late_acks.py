"""`examples/order_join` and `examples/batch_sums`: bolts that ack in later waves, by handles in their state."""

import threading
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.engine import RunHandle
from anchorbolt.errors import SpoutError
from anchorbolt.testing import CrashRunner, Fault, FaultPoint, LocalCluster, ManualClock, TupleCapture
from tests.cli.command import wait_until
from tests.docs.pages import Page
from tests.engine.jobs import finished
from tests.examples.conftest import EXAMPLES, LoadJob
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, FAILED, QueueSpout, RichBolt
from tests.support.programs import printed

QUEUES: defaultdict[str, deque[tuple[Any, Any]]] = defaultdict(deque)  # by spout: message ids and values
DIES = threading.Event()
FAILS: list[Any] = []  # values that `FailsOnce` has yet to fail


@pytest.fixture(autouse=True)
def _forget() -> None:
    jobs.forget()
    QUEUES.clear()
    FAILS.clear()
    DIES.clear()


class OwnQueue(QueueSpout):
    """Emits the messages of its component's queue. Raises once `DIES` is set: that ends the run, as a crash does."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        self.queue = QUEUES[context.this_component_id]

    def next_tuple(self) -> None:
        if DIES.is_set():
            raise ConnectionError("the driver dies")
        super().next_tuple()


class FailsOnce(RichBolt):
    def execute(self, tup: Any) -> None:
        if tup.values in FAILS:
            FAILS.remove(tup.values)
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def orders() -> OwnQueue:
    return OwnQueue("order_id", "item")


def payments() -> OwnQueue:
    return OwnQueue("order_id", "amount")


def readings(first: int, count: int) -> list[tuple[str, Any]]:
    return [(f"r{number}", (number, "attic", 1)) for number in range(first, first + count)]


def wait_for_waves(handle: RunHandle, count: int) -> None:
    wait_until(lambda: len(handle.reports) >= count or handle.await_termination(0), f"wave {count}", seconds=30)


def die(handle: RunHandle) -> None:
    DIES.set()
    with pytest.raises(SpoutError):
        handle.await_termination(30)
    DIES.clear()


def test_an_order_waits_in_the_state_over_a_crash_and_both_are_acked_when_they_are_joined(load_job: LoadJob) -> None:
    job, captured = load_job("order_join"), TupleCapture()
    topology = job.wire(orders(), payments(), captured)
    cluster = LocalCluster()
    QUEUES["orders"].append(("o1", (1, "apple")))
    handle = cluster.submit(topology)
    wait_for_waves(handle, 1)
    die(handle)
    assert ACKED == []
    QUEUES["orders"].append(("o1", (1, "apple")))  # its source delivers it again
    QUEUES["payments"].append(("p1", (1, 5)))
    handle = finished(topology, cluster=cluster)
    assert captured.tuples == [(1, "apple", 5)]
    assert handle.state("join") == {}
    assert (sorted(ACKED), FAILED) == (["o1", "p1"], [])


@pytest.mark.parametrize("policy", ["exclude", "commit"])
def test_a_joined_row_that_fails_is_joined_again_from_its_messages(load_job: LoadJob, policy: str) -> None:
    job = load_job("order_join")
    FAILS.append((1, "apple", 5))
    QUEUES["orders"].extend([("o1", (1, "apple")), ("o2", (2, "bread"))])
    QUEUES["payments"].extend([("p2", (2, 10)), ("p1", (1, 5))])
    conf = {"topology.fail.policy": policy}
    handle = finished(job.wire(orders(), payments(), FailsOnce()), conf)
    assert FAILS == []
    assert handle.state("join") == {}
    # One that waits since an earlier wave goes on waiting where the wave of the other one is run again without that.
    assert sorted(FAILED) == ["o1", "p1"] or (policy == "exclude" and FAILED in (["o1"], ["p1"]))
    assert sorted(ACKED) == ["o1", "o2", "p1", "p2"]


def test_an_order_that_timed_out_is_joined_under_its_new_handle(load_job: LoadJob) -> None:
    job, captured, clock = load_job("order_join"), TupleCapture(), ManualClock()
    QUEUES["orders"].append(("o1", (1, "apple")))
    handle = LocalCluster(clock=clock).submit(job.wire(orders(), payments(), captured))
    wait_for_waves(handle, 1)
    clock.advance(31)
    wait_for_waves(handle, 3)  # one in which it times out, and one in which it comes again
    QUEUES["payments"].append(("p1", (1, 5)))
    assert handle.await_termination(30)
    assert captured.tuples == [(1, "apple", 5)]
    assert (FAILED, sorted(ACKED)) == (["o1"], ["o1", "p1"])


def test_ten_readings_are_acked_with_their_sum_over_a_crash_and_not_before(load_job: LoadJob) -> None:
    job, captured = load_job("batch_sums"), TupleCapture()
    topology = job.wire(OwnQueue("id", "sensor", "value"), captured)
    cluster = LocalCluster()
    QUEUES["readings"].extend(readings(0, 14))
    handle = cluster.submit(topology)
    wait_until(lambda: len(ACKED) == 10, "the acks of a batch", seconds=30)
    wait_until(lambda: len(handle.state("sums").get("attic", ())) == 4, "a batch of four", seconds=30)
    die(handle)
    assert captured.tuples == [("attic", 10)]
    acked = set(ACKED)
    QUEUES["readings"].extend(each for each in readings(0, 20) if each[0] not in acked)
    handle = finished(topology, cluster=cluster)
    assert captured.tuples == [("attic", 10), ("attic", 10)]
    assert handle.state("sums") == {}
    assert sorted(ACKED) == sorted(msg_id for msg_id, _ in readings(0, 20))
    assert FAILED == []


def test_a_reading_that_timed_out_counts_once(load_job: LoadJob) -> None:
    job, captured, clock = load_job("batch_sums"), TupleCapture(), ManualClock()
    QUEUES["readings"].extend(readings(0, 4))
    handle = LocalCluster(clock=clock).submit(job.wire(OwnQueue("id", "sensor", "value"), captured))
    wait_until(lambda: len(handle.state("sums").get("attic", ())) == 4, "a batch of four", seconds=30)
    before = handle.state("sums")["attic"]
    clock.advance(31)
    wait_until(lambda: _all_new(handle.state("sums")["attic"], before), "four new handles", seconds=30)
    QUEUES["readings"].extend(readings(4, 6))
    assert handle.await_termination(30)
    assert captured.tuples == [("attic", 10)]
    assert sorted(FAILED) == ["r0", "r1", "r2", "r3"]
    assert sorted(ACKED) == sorted(msg_id for msg_id, _ in readings(0, 10))


def _all_new(batch: dict[int, tuple[bytes, int]], before: dict[int, tuple[bytes, int]]) -> bool:
    return all(batch[id][0] != before[id][0] for id in before)


@pytest.mark.parametrize("example", ["order_join", "batch_sums"])
def test_the_documented_command_for_one_process_prints_what_the_readme_shows(example: str, tmp_path: Path) -> None:
    [shown] = [block.text for block in Page(f"examples/{example}/README.md").blocks if block.language == "text"]
    assert printed(EXAMPLES / example / "job.py", cwd=tmp_path) == shown


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_spark_killed_while_batches_are_open_every_reading_is_in_one_sum(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    runner = CrashRunner(
        f"{EXAMPLES / 'batch_sums' / 'job.py'}:topology",
        folder,
        conf={"topology.enable.message.timeouts": False},
        arguments=["--master", "local[2]"],
    )
    report = runner.run(Fault(FaultPoint.SEALED, component="sums", txid=1))  # a worker
    assert report.struck == report.faults
    rows = [tuple(row.values()) for row in pq.read_table(folder / "out-sums").to_pylist()]
    totals: defaultdict[str, int] = defaultdict(int)
    for sensor, batch_sum in rows:
        totals[sensor] += batch_sum
    assert totals == dict.fromkeys(("attic", "cellar", "garden"), 49_500)
    assert len(rows) == 300
