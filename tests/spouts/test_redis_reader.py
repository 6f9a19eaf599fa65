"""Which consumers a task takes for its siblings, and which task looks after the others."""

import subprocess
import sys

import pytest

from anchorbolt.spouts.redis_reader import Task


@pytest.mark.parametrize(
    ("consumer", "works"),
    [
        ("words:lines-0", True),
        ("words:lines-1", True),
        ("words:lines-2", False),
        ("words:lines-10", False),
        ("words:lines-", None),
        ("words:lines-x", None),
        ("words:lines-²", None),
        ("words:lines--1", None),
        ("words:lines2-0", None),
        ("other", None),
        ("\udcff", None),
    ],
)
def test_the_name_of_a_consumer_tells_whether_it_is_a_task_of_this_run(consumer: str, works: bool | None) -> None:
    assert Task("words:lines-", 0, 2).works_as(consumer) is works


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_exactly_one_task_looks_after_a_consumer_so_that_no_two_claim_the_same_entry(tasks: int) -> None:
    every = [Task("words:lines-", index, tasks) for index in range(tasks)]
    names = [*(f"words:lines-{number}" for number in range(50)), "\udcff"]
    chosen = [[task.index for task in every if task.takes_over(name)] for name in names]
    assert {len(each) for each in chosen} == {1}
    assert {index for each in chosen for index in each} == set(range(tasks))


def test_other_spouts_do_not_load_the_client_of_redis() -> None:
    program = "import sys, anchorbolt.spouts as spouts; spouts.GeneratorSpout; print('redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
