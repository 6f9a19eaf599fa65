"""Every guard of the protocol is needed: the simulation, or a test of the model, notices when one is taken out."""

from __future__ import annotations

import pytest

from tests.simulation.judging import judge, mutated
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.simulate import run_choices, run_seed, shrink

SEEDS = 150
"""Simulated before the model tests, which take as long and catch what shows in few schedules."""


def test_each_mutant_is_a_program() -> None:
    for mutant in MUTANTS:
        compile(mutated(mutant), mutant.file, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    verdict = judge(mutant, SEEDS)
    print(f"{mutant.name} | {verdict.caught_by} | {verdict.reason}")
    assert verdict.caught_by, f"{mutant.name}: neither {SEEDS} seeds nor the model tests notice it"


def test_a_failure_shrinks_to_a_short_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchorbolt.state_backends.rules.check_fence", lambda *_: None)
    failed = next(outcome for seed in range(2000) if (outcome := run_seed(seed)).failure)
    shrunk = run_choices(shrink(failed.choices), traced=True)
    assert shrunk.failure
    assert sum(map(bool, shrunk.choices)) < sum(map(bool, failed.choices))
    assert sum(map(bool, shrunk.choices)) <= 20
