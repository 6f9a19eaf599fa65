"""Simulations, each decided by its seed: no invariant of the protocol is ever broken."""

import os
import re
import subprocess
import sys

import pytest

from tests.simulation.choices import Choices
from tests.simulation.scenarios import (
    RELIABLE_SEEDS,
    TIMED_SEEDS,
    VECTORISED_SEEDS,
    WORKER_SEEDS,
    Fate,
    Ids,
    scenario_of,
)
from tests.simulation.simulate import Outcome, failures_among, run_choices, run_seed, run_seeds, shrink

SEEDS = int(os.environ.get("ANCHORBOLT_SEEDS", "10000"))
CHUNK = 1000
"""Seeds of one test: those of several are run side by side."""
FIRST = int(os.environ.get("ANCHORBOLT_FIRST_SEED", "0"))


def report(outcome: Outcome) -> str:
    shrunk = run_choices(shrink(outcome.choices), traced=True)
    trace = "\n".join(shrunk.trace)
    return f"seed {outcome.seed}: {outcome.failure}\nshrunk to {shrunk.choices}: {shrunk.failure}\n{trace}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "number"),
    [
        (FIRST, 400),
        (VECTORISED_SEEDS.start + 128, 100),
        (TIMED_SEEDS.start, 128),
        *(pytest.param(first, CHUNK, marks=pytest.mark.thorough) for first in range(FIRST, FIRST + SEEDS, CHUNK)),
    ],
)
def test_no_seed_breaks_an_invariant(first: int, number: int) -> None:
    failed = failures_among(first, number)
    assert not failed, f"{len(failed)} of {number} seeds from {first} failed; the first one:\n{report(failed[0])}"


@pytest.mark.parametrize("seed", [14804, 19241, 23333, 52281])
def test_a_driver_that_looked_before_an_older_one_made_the_query_misses_no_rows(seed: int) -> None:
    """They failed: nobody had told it to go on without that query's location, and it looked for lost rows there."""
    outcome = run_seed(seed)
    assert not outcome.failure, report(outcome)


@pytest.mark.thorough
@pytest.mark.slow
def test_seeds_run_on_all_cores_at_once() -> None:
    assert run_seeds(FIRST, 40) == []


def test_a_seed_replays_step_by_step() -> None:
    for seed in (*range(20), *RELIABLE_SEEDS[5:15], *WORKER_SEEDS[:8], *TIMED_SEEDS[:8]):
        first, second = run_seed(seed, traced=True), run_seed(seed, traced=True)
        assert first.trace == second.trace
        replayed = run_choices(first.choices, traced=True)
        assert replayed.trace == first.trace


def test_a_seed_is_the_same_in_a_process_with_other_hashes() -> None:
    program = "import sys; from tests.simulation.simulate import run_seed\nfor seed in (98, 99, 101, 152, 160, 164):\n"
    program += "    print(*run_seed(seed, traced=True).trace, sep='\\n')"
    traces = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert traces[0] == traces[1] != ""


@pytest.mark.thorough
@pytest.mark.slow
def test_the_seeds_reach_every_kind_of_fault() -> None:
    wanted = {
        "is killed": "a driver is killed",
        "the worker of": "a worker dies",
        "the request is lost": "a request to the store is lost",
        "the reply is lost": "a reply of the store is lost",
        "sent again": "a call is sent twice",
        "arrives late": "a repeated call arrives late",
        "by itself": "a late attempt of a task",
        r"commit of \S+ runs twice, the second one by itself": "a late commit task",
        r"commit of \S+ runs twice, and both outputs are used": "a commit task that Spark ran twice",
        "the worker of commit of": "a worker that dies while it commits",
        "both outputs are used": "a stage that Spark ran twice",
        "is lost": "a message between tasks is lost",
        "an executor is lost": "a round that an executor's loss ends",
        "waits after a loss": "a driver that waits after a loss",
        "arrives twice": "a message arrives twice",
        "restored from the past": "a store that went back in time",
        "driver 2": "a second driver",
        "ended: Fenced": "an older driver that is fenced off",
        "ended: StateRegressed": "a halt because the store went back",
        r"worker \S+ dies": "a worker that stays dies",
        r"the worker of worker \S+ dies": "such a worker dies in the middle of a step",
        "does not answer": "a worker that sleeps and is replaced",
        r"worker \S+ dies, and its driver notices": "a worker with spouts dies between two rounds",
        r"worker \S+ goes on": "the sleeping worker wakes up",
        "refuses worker": "a worker of an older table connects",
        r"a connection from \d to worker": "a connection between two workers breaks",
        "a connection from -1 to worker": "a connection of a spout's task breaks",
        "a task of a spout runs twice": "a task of a spout sends its blobs twice",
        "hears of a round that was given up": "a late report of a worker",
    }
    seen: set[str] = set()
    for seed in range(2000):
        trace = "\n".join(run_seed(seed, traced=True).trace)
        seen |= {text for text in wanted if re.search(text, trace)}
        if seen == wanted.keys():
            break
    assert not wanted.keys() - seen, [wanted[text] for text in wanted.keys() - seen]


@pytest.mark.thorough
@pytest.mark.slow
def test_the_seeds_reach_everything_that_can_happen_to_a_message() -> None:
    wanted = {
        "delivers": "a message that is delivered although it is in flight",
        "has acked": "an ack",
        "fails ": "a fail",
        "has written dead letters": "a dead letter",
    } | {fate.value: f"a message that is {fate.value}" for fate in Fate}
    seen: set[str] = set()
    scenarios = set()
    for seed in RELIABLE_SEEDS[:200]:
        trace = "\n".join(run_seed(seed, traced=True).trace)
        seen |= {text for text in wanted if re.search(text, trace)}
        scenario = scenario_of(Choices(seed))
        scenarios.add((scenario.has_stream, scenario.ids, scenario.excludes))
        if seen == wanted.keys() and len(scenarios) == 2 * len(Ids) * 2:
            break
    assert not wanted.keys() - seen, [wanted[text] for text in wanted.keys() - seen]
    assert len(scenarios) == 2 * len(Ids) * 2


@pytest.mark.parametrize("seed", [2743])
def test_ackers_that_a_dead_driver_added_are_cleared_by_a_successor_with_fewer(seed: int) -> None:
    """It failed: only the driver that added the ackers knew of the trees that they had staged."""
    outcome = run_seed(seed)
    assert not outcome.failure, report(outcome)


@pytest.mark.parametrize("seed", [1002591, 1011159, 1012799, 2002715])
def test_what_is_said_of_a_tree_counts_once_although_it_arrives_twice(seed: int) -> None:
    """They failed: a tree was opened twice, failed twice, or never timed out since it was taken for settled."""
    outcome = run_seed(seed)
    assert not outcome.failure, report(outcome)


def test_zero_is_the_ordinary_course() -> None:
    outcome = run_choices([], traced=True)
    assert not outcome.failure
    assert not any(outcome.choices)
    assert {line.partition(":")[0].strip() for line in outcome.trace} == {"driver 1"}


def test_choices_behind_the_end_of_a_replay_are_zero() -> None:
    choices = Choices(0, [1, 5])
    assert [choices.happens(0.0), choices.pick(3), choices.pick(9), choices.happens(1.0)] == [True, 2, 0, False]
    assert choices.made == [1, 2, 0, 0]
