"""Every guard of the protocol is needed: the simulation, or a test of the model, notices when one is taken out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, Verdict, judge
from tests.simulation.simulate import run_choices, run_seed, shrink

SEEDS = 600


@pytest.fixture(scope="module")
def verdicts() -> Iterator[dict[str, Future[Verdict]]]:
    """The verdicts on all mutants, which are judged side by side; each takes some seconds."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        judged = {mutant.name: pool.submit(judge, mutant, SEEDS) for mutant in MUTANTS}
        yield judged
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_is_caught(mutant: Mutant, verdicts: dict[str, Future[Verdict]]) -> None:
    verdict = verdicts[mutant.name].result()
    print(f"{mutant.name} | {verdict.caught_by} | {verdict.reason}")
    assert verdict.caught_by, f"{mutant.name}: neither {SEEDS} seeds nor the model tests notice it"


def test_a_failure_shrinks_to_a_short_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchorbolt.state_backends.transitions.check_fence", lambda *_: None)
    failed = next(outcome for seed in range(2000) if (outcome := run_seed(seed)).failure)
    shrunk = run_choices(shrink(failed.choices), traced=True)
    assert shrunk.failure
    assert sum(map(bool, shrunk.choices)) < sum(map(bool, failed.choices))
    assert sum(map(bool, shrunk.choices)) <= 20
