"""One task of a stage: what it makes of rows that no honest run would bring together."""

from pathlib import Path

import pytest

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.preparation import prepare_plan
from anchorbolt.engine.task.bolt_task import run_bolt_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import (
    Envelope,
    PrepareMessage,
    TaskReport,
    TuplesMessage,
    encode_message,
    encode_report,
    reports_in,
)
from anchorbolt.errors import WaveFailed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count

FIRST, SECOND, OTHER = "a" * 32, "b" * 32, "c" * 32
COUNT = ("count", 0)


@pytest.fixture
def plan(tmp_path: Path) -> ExecutionPlan:
    return prepare_plan(word_count(feeder()), None, memory=MemoryStateProvider(), location=str(tmp_path))


def batch(plan: ExecutionPlan, attempt: str, number: int, *words: str) -> Envelope:
    level, partition = plan.places[COUNT]
    message = TuplesMessage(("split", 0), 1, attempt, number, "default", len(words), [words])
    return Envelope(partition, level, partition, encode_message(message))


def prepare(plan: ExecutionPlan, split: int, attempt: str, batches: int) -> Envelope:
    level, partition = plan.places[COUNT]
    return Envelope(partition, level, partition, encode_message(PrepareMessage(("split", split), attempt, 0, batches)))


def report_of(plan: ExecutionPlan, *rows: Envelope) -> TaskReport:
    current = Round(0, Fence(1, 1))
    sent = run_bolt_task(plan, COUNT, current, InstanceRegistry(), rows)
    [report] = reports_in((each for each in sent if each.level == plan.driver_level), current)
    return report


def test_a_task_prepares_once_every_prepare_has_come(plan: ExecutionPlan) -> None:
    report = report_of(plan, batch(plan, FIRST, 0, "a", "b"), prepare(plan, 0, FIRST, 1), prepare(plan, 1, OTHER, 0))
    assert report.failure is None
    assert (report.tuples_in, report.outcome.keys_staged) == (2, 2)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([(FIRST, 0), (SECOND, 1)], "two attempts"),
        ([(FIRST, 0), (FIRST, 0)], "twice"),
        ([(FIRST, 1)], "did not receive all"),
    ],
)
def test_batches_of_two_attempts_repeated_ones_and_missing_ones_fail_the_wave(
    plan: ExecutionPlan, rows: list[tuple[str, int]], complaint: str
) -> None:
    batches = [batch(plan, attempt, number, f"word{number}") for attempt, number in rows]
    last = rows[-1][0]
    report = report_of(plan, *batches, prepare(plan, 0, last, 2), prepare(plan, 1, OTHER, 0))
    assert isinstance(report.failure, WaveFailed)
    assert complaint in report.failure.message
    assert report.outcome.seal is None


def test_the_report_of_an_earlier_round_is_refused() -> None:
    current = Round(txid=4, fence=Fence(1, 9))

    def envelope(seq: int) -> Envelope:
        return Envelope(0, 3, 0, encode_report(TaskReport(("count", 0), "a" * 32, seq)))

    assert [report.task for report in reports_in([envelope(9)], current)] == [("count", 0)]
    with pytest.raises(WaveFailed, match=r"'count', 0.* round 8"):
        reports_in([envelope(9), envelope(8)], current)
