"""What a driver checks of the reports of a round before it decides."""

from dataclasses import replace

import pytest

from anchorbolt.engine.driver.rounds import check_round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import NOTHING, TaskReport, tally
from anchorbolt.errors import InfrastructureLost, WaveFailed
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count


def reports_of(plan: ExecutionPlan) -> list[TaskReport]:
    """Return the reports of a round in which all went well: each task has sent one blob to each task behind it."""
    tasks = [*((spout, 0) for spout in plan.graph.spouts), *(task for level in plan.wiring.levels for task in level)]
    reports = {task: TaskReport(task, f"{task[0]}-{task[1]}", 7) for task in tasks}
    for source, report in reports.items():
        for edges in plan.wiring.edges[source[0]].values():
            for edge in edges:
                sent = [(source, report.attempt, receiver, 1) for receiver in plan.wiring.tasks[edge.component]]
                report.sent[edge.component] = tally(sent)
                for one in sent:
                    reports[one[2]].received = reports[one[2]].received.plus(tally([one]))
    return list(reports.values())


def test_each_task_has_to_report_once_and_to_have_received_what_was_sent_to_it() -> None:
    plan = prepare_plan(word_count(feeder("a"), parallelism=2), {}, memory=MemoryStateProvider(), location="nowhere")
    good = reports_of(plan)
    check_round(plan, good, 3)
    check_round(plan, [*good, good[-1]], 3)  # it may arrive twice
    last = good[-1]
    failed, lost = WaveFailed("killed", txid=3), InfrastructureLost("away", txid=3)
    other = last.received._replace(digest=1)
    wrong: dict[str, tuple[type[WaveFailed], list[TaskReport]]] = {
        "no report of the last task": (WaveFailed, good[:-1]),
        "two attempts of one task": (InfrastructureLost, [*good, replace(last, attempt="another")]),
        "the output of another attempt arrived": (InfrastructureLost, [*good[:-1], replace(last, received=other)]),
        "a blob was lost": (InfrastructureLost, [*good[:-1], replace(last, received=NOTHING)]),
        "nothing was sent": (InfrastructureLost, [replace(good[0], sent={}), *good[1:]]),
        "a failure": (WaveFailed, [*good[:-1], replace(last, failure=failed)]),
        "a loss explains a failure": (
            InfrastructureLost,
            [*good[:-2], replace(good[-2], failure=failed), replace(last, failure=lost)],
        ),
    }
    for case, (kind, reports) in wrong.items():
        with pytest.raises(WaveFailed) as raised:
            check_round(plan, reports, 3)
        assert (type(raised.value), raised.value.txid) == (kind, 3), case


@pytest.mark.parametrize(
    "other",
    [(("split", 0), "b", ("count", 1), 2), (("split", 1), "a", ("count", 1), 2), (("split", 0), "a", ("count", 0), 2)],
    ids=["another attempt", "from another task", "to another task"],
)
def test_the_same_number_of_blobs_on_another_way_is_another_sum(
    other: tuple[tuple[str, int], str, tuple[str, int], int],
) -> None:
    assert tally([other]) != tally([(("split", 0), "a", ("count", 1), 2)])
