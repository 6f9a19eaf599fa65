"""What the record of a wave tells of its tasks."""

from __future__ import annotations

from typing import Any

from anchorbolt.engine import WaveReport
from anchorbolt.engine.task.executors.wrapped_bolts import TaskOutcome
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.observe.history.recording import wave_record
from anchorbolt.state_backends.attempt import StateCounters


def task(index: int, began_at: float, **quantities: float) -> TaskReport:
    report = TaskReport(("count", index), f"a{index}", 1, began_at=began_at)
    report.outcome = TaskOutcome(StateCounters(bytes_staged=100 * index))
    for name, value in quantities.items():
        setattr(report, name, value)
    return report


def spreads(tasks: list[TaskReport]) -> Any:
    of_tasks: Any = wave_record(1, WaveReport(7, 7), tasks, at=51.0).tasks
    return of_tasks["count"]


def test_the_record_of_a_wave_has_the_least_the_median_and_the_most_of_each_quantity_of_its_tasks() -> None:
    tasks = [
        task(2, 50.004, prepare_ms=9.0, stage_ms=6.0, seal_ms=2.5, tuples_in=7),
        task(0, 50.0, prepare_ms=3.0, stage_ms=1.0, seal_ms=0.5, tuples_in=1),
        task(1, 50.001, prepare_ms=4.0, stage_ms=2.0, seal_ms=1.256, tuples_in=4),
        task(3, 50.002, prepare_ms=5.0, stage_ms=3.0, seal_ms=1.0, tuples_in=2),
    ]
    of_count = spreads(tasks)
    assert of_count == {
        "tasks": 4,
        "start_ms": [0.0, 1.5, 4.0],
        "aligned_ms": [0.0, 0.0, 0.0],
        "prepare_ms": [3.0, 4.5, 9.0],
        "stage_ms": [1.0, 2.5, 6.0],
        "seal_ms": [0.5, 1.13, 2.5],
        "execute_ms": [0.0, 0.0, 0.0],
        "executed": [1, 3.0, 7],
        "bytes_staged": [0, 150.0, 300],
    }


def test_the_median_of_an_odd_number_of_tasks_is_the_middle_one() -> None:
    tasks = [task(index, 50.0, seal_ms=ms) for index, ms in enumerate((9.0, 1.0, 2.0))]
    assert spreads(tasks)["seal_ms"] == [1.0, 2.0, 9.0]
