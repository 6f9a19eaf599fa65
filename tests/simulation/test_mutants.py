"""Every guard of the protocol is needed: the simulation, or a test of the model, fails without it."""

import ast

import pytest

from tests.simulation.guards import Expression, GuardNotFound, Statement, Swap, never
from tests.simulation.judging import SEEDS, judge
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.simulate import run_choices, run_seed, shrink

# One for each place that holds a guard: the rules, recovery, the driver, the reports, the tasks.
CANARIES = {
    "no fence is ever refused",
    "recovery does not check that the winner is still staged",
    "namespaces commit before the decision is durable",
    "attempts seen downstream are not compared with those that won",
    "a stale cache of committed values is used",
}

SOURCE = """
def step(store, fence):
    if fence < store.fence:  # a comment
        raise ValueError("older")
    for name in store.names:
        store.drop(
            name, fence
        )
    store.close()
"""


def test_each_mutant_finds_its_guard() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert names >= CANARIES
    for mutant in MUTANTS:
        compile(mutant.apply(), mutant.name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=[] if mutant.name in CANARIES else [pytest.mark.thorough])
        for mutant in MUTANTS
    ],
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    verdict = judge(mutant)
    print(f"{mutant.name} | {verdict.caught_by} | {verdict.reason}")
    assert verdict.caught_by, f"{mutant.name}: neither {SEEDS} seeds nor the model's tests notice it"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (never("fence < _.fence"), SOURCE.replace("fence < store.fence", "False")),
        (
            Expression("store.drop(...)", "None"),
            SOURCE.replace("store.drop(\n            name, fence\n        )", "None"),
        ),
        (
            Statement("if _: ...", "store.open()"),
            SOURCE.replace('if fence < store.fence:  # a comment\n        raise ValueError("older")', "store.open()"),
        ),
        (
            Swap("store.drop(...)", "store.close()"),
            "def step(store, fence):\n    if fence < store.fence: raise ValueError('older')\n"
            "    for name in store.names: store.close()\n    store.drop(name, fence)\n",
        ),
    ],
)
def test_a_change_finds_what_it_changes_whatever_the_layout(change: Expression | Statement | Swap, wanted: str) -> None:
    tree = ast.parse(SOURCE)
    change.apply(tree)
    assert ast.unparse(tree) == ast.unparse(ast.parse(wanted))


@pytest.mark.parametrize(
    "change", [never("fence > _"), Expression("store", "None"), Statement("store.open()"), Swap("_", "_")]
)
def test_a_guard_that_is_gone_or_there_twice_is_an_error(change: Expression | Statement | Swap) -> None:
    with pytest.raises(GuardNotFound):
        change.apply(ast.parse(SOURCE))


def test_a_failure_shrinks_to_a_short_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchorbolt.state_backends.rules.check_fence", lambda *_: None)
    failed = next(outcome for seed in range(2000) if (outcome := run_seed(seed)).failure)
    shrunk = run_choices(shrink(failed.choices), traced=True)
    assert shrunk.failure
    assert sum(map(bool, shrunk.choices)) < sum(map(bool, failed.choices))
    assert sum(map(bool, shrunk.choices)) <= 20
