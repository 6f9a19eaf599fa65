"""What a driver checks of the reports of a round before it decides."""

from dataclasses import replace

import pytest

from anchorbolt.engine.driver.rounds import check_round
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.submit.preparation import prepare_plan
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import InfrastructureLost, WaveFailed
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count


def reports_of(plan: ExecutionPlan) -> list[TaskReport]:
    """Return the reports of a round in which all went well; the only task of the spout has index 0."""
    spouts = [TaskReport((spout, 0), f"{spout}-0", 7) for spout in plan.graph.spouts]
    bolts = [TaskReport(task, f"{task[0]}-{task[1]}", 7) for level in plan.levels for task in level]
    everyone = [*spouts, *bolts]
    for report in bolts:
        sources = plan.sources[report.component]
        report.seen = {each.task: each.attempt for each in everyone if each.component in sources}
    return everyone


def test_each_task_has_to_report_once_and_to_have_seen_the_others_attempts() -> None:
    plan = prepare_plan(word_count(feeder("a"), parallelism=2), {}, memory=MemoryStateProvider(), location="nowhere")
    good = reports_of(plan)
    check_round(plan, good, 3)
    check_round(plan, [*good, good[-1]], 3)  # it may arrive twice
    last = good[-1]
    failed, lost = WaveFailed("killed", txid=3), InfrastructureLost("away", txid=3)
    wrong: dict[str, tuple[type[WaveFailed], list[TaskReport]]] = {
        "no report of the last task": (WaveFailed, good[:-1]),
        "two attempts of one task": (InfrastructureLost, [*good, replace(last, attempt="another")]),
        "another attempt was seen": (
            InfrastructureLost,
            [*good[:-1], replace(last, seen=dict.fromkeys(last.seen, "another"))],
        ),
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
