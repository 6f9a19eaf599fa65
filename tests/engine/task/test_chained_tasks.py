"""Tasks of one partition: they take turns, and stay tasks of their own."""

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BasicOutputCollector, FailedException, ParquetSink
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task import watchdog
from anchorbolt.engine.task.bolt_task import run_bolt_tasks
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import (
    Envelope,
    GaveUpMessage,
    TaskReport,
    TuplesMessage,
    decode_message,
    encode_message,
    reports_in,
)
from anchorbolt.errors import FaultInjected, WaveFailed
from anchorbolt.faults.points import FaultPoint, PointReached, current_task, observe
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.streams import Tuple
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, CountWords, RichBolt, finished

ATTEMPT = "a" * 32
ROUND = Round(0, Fence(1, 1))
CHAIN: list[TaskKey] = [("copies", 1), ("count", 1), ("last", 1), ("twin", 1)]


class Copies(BasicBolt):
    """Emits each word as often as it says, so that it sends several blobs for one."""

    fields = ("word",)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        note(("copies", 1))
        if tup["word"] == "bad":
            raise FailedException("bad")
        for _ in range(tup["times"]):
            collector.emit((tup["word"],))


class NotedCount(CountWords):
    def execute(self, tup: Tuple) -> None:
        note(("count", 1))
        super().execute(tup)


class Last(RichBolt):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.name = context.this_component_id

    def execute(self, tup: Tuple) -> None:
        note((self.name, 1))
        self.collector.ack(tup)


NOTED: list[tuple[TaskKey, TaskKey, TaskKey]] = []


def note(task: TaskKey) -> None:
    """Note which task executes, and which one the fault points and the watchdog take it for."""
    NOTED.append((task, current_task()[:2], watchdog._watched[threading.get_ident()].task))


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("rows", FeederSpout(["word", "times"]))
    builder.set_bolt("copies", Copies(), 2).fields_grouping("rows", "word")
    builder.set_bolt("count", NotedCount(), 2).none_grouping("copies")
    builder.set_bolt("last", Last(), 2).local_or_shuffle_grouping("count")
    builder.set_bolt("twin", Last(), 2).none_grouping("count")
    builder.set_bolt("behind", Last()).global_grouping("count")
    return builder.create_topology("t")


@pytest.fixture
def plan(tmp_path: Path) -> ExecutionPlan:
    NOTED.clear()
    conf = {"topology.transfer.blob.bytes": 1024}
    return prepare_plan(topology(), conf, memory=MemoryStateProvider(), location=str(tmp_path))


def sent_by(plan: ExecutionPlan, *rows: tuple[str, int], before: Sequence[Envelope] = ()) -> list[Envelope]:
    """Run the chain on a blob with these rows."""
    columns: list[list[Any]] = [[word for word, _ in rows], [times for _, times in rows]]
    message = TuplesMessage(("rows", 0), 0, ATTEMPT, 0, "default", len(rows), columns)
    blob = Envelope(1, *plan.wiring.places["copies", 1], encode_message(message))
    return list(run_bolt_tasks(plan, CHAIN, ROUND, InstanceRegistry(), [*before, blob]))


def reports_of(plan: ExecutionPlan, sent: Sequence[Envelope]) -> dict[TaskKey, TaskReport]:
    found = reports_in((each for each in sent if each.level == plan.wiring.driver_level), ROUND)
    return {report.task: report for report in found}


def test_each_task_of_a_partition_sends_its_own_report(plan: ExecutionPlan) -> None:
    sent = sent_by(plan, ("a", 3), ("b", 4))
    reports = reports_of(plan, sent)
    assert list(reports) == CHAIN
    assert {task[0]: report.tuples_in for task, report in reports.items()} == {
        "copies": 2,
        "count": 7,
        "last": 7,
        "twin": 7,
    }
    assert len({report.attempt for report in reports.values()}) == 4
    for sender, receiver in (("copies", "count"), ("count", "last"), ("count", "twin")):
        assert reports[sender, 1].sent[receiver] == reports[receiver, 1].received
    others = [each for each in sent if each.level != plan.wiring.driver_level]
    assert {(each.level, each.destination) for each in others} == {plan.wiring.places["behind", 0]}


def test_the_tasks_take_turns_and_the_watchdog_and_fault_points_know_which_one_runs(plan: ExecutionPlan) -> None:
    reached: list[PointReached] = []
    before = observe(reached.append)
    try:
        sent_by(plan, *[("word", 20)] * 400)
    finally:
        observe(before)
    assert all(task == at == watched for task, at, watched in NOTED)
    order = [task[0] for task, _, _ in NOTED]
    changes = [now for earlier, now in pairwise(order) if now != earlier]
    assert changes.count("copies") > 3, "it goes on when the others have executed what it has sent"
    by_task = Counter((each.component, each.task_index) for each in reached if each.point is FaultPoint.TASK_EXECUTED)
    assert by_task.keys() == set(CHAIN)
    once = [each[1:3] for each in reached if each.point in (FaultPoint.TASK_BEGUN, FaultPoint.TASK_ALIGNED)]
    assert once == [*CHAIN, *CHAIN], "each prepares after the tasks in front of it"
    assert [each[1:3] for each in reached if each.point is FaultPoint.TASK_PREPARED] == CHAIN


def test_blobs_for_other_tasks_pass_through(plan: ExecutionPlan) -> None:
    blob = Envelope(1, *plan.wiring.places["behind", 0], b"a blob")
    passed = [each for each in sent_by(plan, before=[blob]) if each.payload == blob.payload]
    assert passed == [blob._replace(partition=0)]


def test_a_task_that_fails_tells_only_its_own_task_of_a_chained_bolt(plan: ExecutionPlan) -> None:
    sent = sent_by(plan, ("bad", 1))
    reports = reports_of(plan, sent)
    assert "bad" in str(reports["copies", 1].failure)
    for task in CHAIN[1:]:
        failure = reports[task].failure
        assert isinstance(failure, WaveFailed)
        assert "task ('copies', 1) failed" in failure.message
        assert reports[task].outcome.seal is None
    told = [each for each in sent if each.level != plan.wiring.driver_level]
    assert [decode_message(each.payload) for each in told] == [GaveUpMessage(("copies", 1))]
    assert [(each.level, each.destination) for each in told] == [plan.wiring.places["behind", 0]]


def test_a_task_that_fails_leaves_the_tasks_in_front_of_it_alone(plan: ExecutionPlan) -> None:
    def strike(reached: PointReached) -> None:
        if reached.point is FaultPoint.TASK_EXECUTED and reached.component == "count":
            raise FaultInjected("here")

    before = observe(strike)
    try:
        reports = reports_of(plan, sent_by(plan, ("a", 3), ("b", 4)))
    finally:
        observe(before)
    assert reports["copies", 1].failure is None
    assert reports["copies", 1].tuples_out == 7
    assert "here" in str(reports["count", 1].failure)
    for component in ("last", "twin"):
        assert "task ('count', 1) failed" in str(reports[component, 1].failure)


class Sees(RichBolt):
    """Notes which of its tasks sees which word."""

    fields = ("word",)
    seen: set[tuple[str, int, str]] = set()  # noqa: RUF012 - shared by its tasks

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.place = context.this_component_id, context.this_task_index

    def execute(self, tup: Tuple) -> None:
        self.seen.add((*self.place, tup["word"]))
        self.collector.emit((tup["word"],), anchors=tup)
        self.collector.ack(tup)


def test_a_tuple_stays_at_the_index_of_its_task_along_a_chain_and_a_sink_may_be_its_end(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(40)]
    Sees.seen.clear()
    builder = TopologyBuilder()
    builder.set_spout("rows", FeederSpout(["word"], [[(word,) for word in words]]))
    builder.set_bolt("one", Sees(), 3).fields_grouping("rows", "word")
    builder.set_bolt("two", Sees(), 3).none_grouping("one")
    builder.set_bolt("count", CountWords(), 3).local_or_shuffle_grouping("two")
    builder.set_bolt("out", ParquetSink(str(tmp_path / "out")), 3).none_grouping("count")
    handle = finished(builder.create_topology("t"), cluster=LocalCluster(seed=3))
    assert {(index, word) for component, index, word in Sees.seen if component == "one"} == {
        (index, word) for component, index, word in Sees.seen if component == "two"
    }
    assert len(Sees.seen) == 80
    assert handle.state("count") == dict.fromkeys(words, 1)
    [report] = handle.reports
    assert report.tuples_in == {"rows": 40, "one": 40, "two": 40, "count": 40, "out": 40}
