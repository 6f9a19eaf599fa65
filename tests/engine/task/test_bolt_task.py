"""One task of a stage: what it makes of rows that no honest run would bring together."""

from pathlib import Path

import pytest

from anchorbolt.bolts import BasicOutputCollector
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import BoltTask, run_bolt_tasks
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import (
    NOTHING,
    Envelope,
    GaveUpMessage,
    TaskReport,
    TuplesMessage,
    decode_message,
    encode_message,
    encode_report,
    reports_in,
    tally,
)
from anchorbolt.errors import WaveFailed
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.streams import Tuple
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import BasicBolt, CountWords, feeder, word_count, words

FIRST, SECOND = "a" * 32, "b" * 32
COUNT = ("count", 0)


@pytest.fixture
def plan(tmp_path: Path) -> ExecutionPlan:
    return prepare_plan(word_count(feeder()), None, memory=MemoryStateProvider(), location=str(tmp_path))


def batch(plan: ExecutionPlan, attempt: str, number: int, *words: str) -> Envelope:
    level, partition = plan.wiring.places[COUNT]
    message = TuplesMessage(("split", 0), 1, attempt, number, "default", len(words), [words])
    return Envelope(partition, level, partition, encode_message(message))


def report_of(plan: ExecutionPlan, *rows: Envelope) -> TaskReport:
    current = Round(0, Fence(1, 1))
    sent = run_bolt_tasks(plan, [COUNT], current, InstanceRegistry(), rows)
    [report] = reports_in((each for each in sent if each.level == plan.wiring.driver_level), current)
    return report


def test_a_task_prepares_at_the_end_of_its_input_and_says_what_it_received(plan: ExecutionPlan) -> None:
    report = report_of(plan, batch(plan, FIRST, 1, "c"), batch(plan, FIRST, 0, "a", "b"))
    assert report.failure is None
    assert (report.tuples_in, report.outcome.counters.keys_staged) == (3, 3)
    assert report.received == tally([(("split", 0), FIRST, COUNT, 2)])


@pytest.mark.parametrize(
    ("rows", "complaint"), [([(FIRST, 0), (SECOND, 1)], "two attempts"), ([(FIRST, 0), (FIRST, 0)], "twice")]
)
def test_batches_of_two_attempts_and_repeated_ones_fail_the_wave(
    plan: ExecutionPlan, rows: list[tuple[str, int]], complaint: str
) -> None:
    report = report_of(plan, *(batch(plan, attempt, number, f"word{number}") for attempt, number in rows))
    assert isinstance(report.failure, WaveFailed)
    assert complaint in report.failure.message
    assert report.outcome.seal is None


def test_a_blob_behind_a_missing_one_does_not_count_as_received(plan: ExecutionPlan) -> None:
    report = report_of(plan, batch(plan, FIRST, 1, "b"))
    assert (report.tuples_in, report.received) == (0, NOTHING)


def test_a_task_that_fails_tells_all_tasks_behind_it_and_they_fail_without_telling(plan: ExecutionPlan) -> None:
    current, task = Round(0, Fence(1, 1)), ("split", 0)
    level, partition = plan.wiring.places[task]
    twice = [
        Envelope(partition, level, partition, encode_message(TuplesMessage(("sentences", 0), 0, FIRST, 0, "no", 0, [])))
    ]
    sent = list(run_bolt_tasks(plan, [task], current, InstanceRegistry(), twice))
    told = [row for row in sent if row.level != plan.wiring.driver_level]
    assert [decode_message(row.payload) for row in told] == [GaveUpMessage(task)] * 2
    assert {(row.level, row.destination) for row in told} == {
        plan.wiring.places[each] for each in plan.wiring.tasks["count"]
    }
    behind = list(run_bolt_tasks(plan, [COUNT], current, InstanceRegistry(), [told[0], batch(plan, FIRST, 0, "a")]))
    [report] = reports_in(behind, current)
    assert isinstance(report.failure, WaveFailed)
    assert (report.tuples_in, report.outcome.seal) == (0, None)


def test_the_report_of_an_earlier_round_is_refused() -> None:
    current = Round(txid=4, fence=Fence(1, 9))

    def envelope(seq: int) -> Envelope:
        return Envelope(0, 3, 0, encode_report(TaskReport(("count", 0), "a" * 32, seq)))

    assert [report.task for report in reports_in([envelope(9)], current)] == [("count", 0)]
    with pytest.raises(WaveFailed, match=r"'count', 0.* round 8"):
        reports_in([envelope(9), envelope(8)], current)


class Copies(BasicBolt):
    """Emits many different words for each of its words."""

    fields = ("word",)
    number = 0

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for _ in range(1000):
            self.number += 1
            collector.emit((f"{self.number:09}{tup['word']}",))


def test_a_bolt_that_emits_much_for_each_tuple_sends_it_while_it_executes_a_blob(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", words())
    builder.set_bolt("split", Copies()).shuffle_grouping("words")
    builder.set_bolt("count", CountWords()).fields_grouping("split", "word")
    conf = {"topology.transfer.blob.bytes": 10_000}
    plan = prepare_plan(builder.create_topology("copies"), conf, memory=MemoryStateProvider(), location=str(tmp_path))
    run = BoltTask(plan, ("split", 0), Round(0, Fence(1, 1)), InstanceRegistry(), FIRST)
    assert run._instance is not None
    waiting: list[int] = []  # bytes that were sent together
    for number in range(2):
        message = TuplesMessage(("words", 0), 0, FIRST, number, "default", 1000, [["w" * 91] * 1000])
        for envelope in run.receive(encode_message(message)):
            waiting.append(run._instance.emitter.bytes_out - sum(waiting))
            assert len(envelope.payload) <= 60_000
    assert run.report.tuples_in == 2000
    assert sum(waiting) > 100 * 1000 * 2000
    first = waiting[0]
    assert max(waiting[1:]) <= 200_000 < first <= 64 * 1000 * 110
