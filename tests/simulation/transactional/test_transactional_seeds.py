"""The simulations of transactional topologies: what they reach, and how they replay."""

import pytest

from tests.simulation.choices import Choices
from tests.simulation.scenarios import TRANSACTIONAL_SEEDS, scenario_of
from tests.simulation.simulate import run_choices, run_seed
from tests.simulation.transactional.scenario import MOST_PENDING, Shape, SpoutKind, batch_scenario


def test_a_seed_replays_step_by_step() -> None:
    for seed in TRANSACTIONAL_SEEDS[:12]:
        first, second = run_seed(seed, traced=True), run_seed(seed, traced=True)
        assert first.trace == second.trace
        assert run_choices(first.choices, traced=True).trace == first.trace


def test_the_simplest_transactional_simulation_has_no_fault() -> None:
    kind = [TRANSACTIONAL_SEEDS[0]]
    assert scenario_of(Choices(0, kind)).is_transactional
    outcome = run_choices(kind, traced=True)
    assert not outcome.failure
    assert not any(outcome.choices[1:])
    assert outcome.trace[-1].strip().startswith("driver 1: $checkpointspout-0 write")


def test_a_scenario_may_be_of_any_kind_and_shape() -> None:
    scenarios = [batch_scenario(Choices(seed)) for seed in range(300)]
    assert {(each.kind, each.shape) for each in scenarios} == {(kind, shape) for kind in SpoutKind for shape in Shape}


@pytest.mark.thorough
@pytest.mark.slow
def test_the_seeds_reach_every_kind_of_fault() -> None:
    wanted = {
        "batch.begun": "a batch that begins",
        "batch.metadata_stored": "metadata that emitters found",
        "batch.hand_off_written": "a hand-off",
        "batch.processed": "a processing phase that has ended",
        f"{MOST_PENDING} batches may be pending": "many batches at a time",
        "fails its batch": "a hook that fails",
        "was given up": "a batch that fails with an earlier one",
        "is away": "a partition that gives nothing for now",
        "the source has 3 partitions": "partitions that come later",
        "is slow": "a slow batch",
        "waits for a lock": "two threads that need one lock",
        "an earlier phase": "shuffle output of another phase",
        "hand-offs/1-": "a hand-off of the first driver",
        " is lost": "a hand-off, or a message, that is lost",
        " becomes sim://": "a hand-off that is replaced",
        "by itself": "a late attempt of a task",
        "both outputs are used": "a stage that Spark ran twice",
        "dead letters of batch": "a batch that is left out",
        "writes only": "a write of the outside store that fails",
        "ended: Fenced": "an older driver that is fenced off",
        "is killed before: batch.begun": "a driver that is killed when a batch begins",
        "is killed before: batch.metadata_stored": "a driver that is killed when metadata is stored",
        "before: batch.hand_off_written": "a worker that dies with its hand-off",
        "is killed before: batch.processed": "a driver that is killed between the phases",
    }
    seen: set[str] = set()
    for seed in TRANSACTIONAL_SEEDS[:1500]:
        trace = "\n".join(run_seed(seed, traced=True).trace)
        seen |= {text for text in wanted if text in trace}
        if len(seen) == len(wanted):
            break
    assert not wanted.keys() - seen, [wanted[text] for text in wanted.keys() - seen]
