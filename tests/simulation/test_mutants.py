"""Every guard of the protocol is needed: the simulation, or a test of the model, fails without it."""

import ast

import pytest

from tests.simulation.guards import GuardNotFound, change
from tests.simulation.judging import judge
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.simulate import run_choices, run_seed, shrink

# Quick ones, of the rules, the driver, and reliable spouts.
CANARIES = {
    "no fence is ever refused",
    "namespaces commit before the decision is durable",
    "a message in flight is processed again",
    "a round with failed trees is decided under the policy exclude",
}

REFUSAL = """if fence < store.fence:  # a comment
        raise ValueError("older")"""
LOOP = """    for name in store.names:
        store.drop(
            name, fence
        )
"""
SOURCE = f"""
def step(store, fence):
    {REFUSAL}
{LOOP}    store.close()
"""


def test_each_mutant_finds_its_guard() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert names >= CANARIES
    for mutant in MUTANTS:
        compile(mutant.apply(), mutant.name, "exec")


@pytest.mark.slow
@pytest.mark.timeout(900)  # the model's tests alone take a minute or two
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=[] if mutant.name in CANARIES else [pytest.mark.thorough])
        for mutant in MUTANTS
    ],
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    catcher = judge(mutant)
    print(f"{mutant.name} | {catcher}")
    assert catcher, f"{mutant.name}: neither {len(mutant.seeds)} seeds nor the model's tests notice it"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("fence < _.fence -> False", "fence < store.fence", "False"),
        ("store.drop(...) -> None", "store.drop(\n            name, fence\n        )", "None"),
        ("if _: ... -> store.open()", REFUSAL, "store.open()"),
        ("if _: ... -> store.open()\nstore.step()", REFUSAL, "store.open()\n    store.step()"),
        ("for _ in _: ... <-> store.close()", f"{LOOP}    store.close()\n", f"    store.close()\n{LOOP}"),
    ],
)
def test_a_change_finds_what_it_changes_whatever_the_layout(text: str, old: str, new: str) -> None:
    tree = ast.parse(SOURCE)
    change(tree, text)
    assert old in SOURCE
    assert ast.unparse(tree) == ast.unparse(ast.parse(SOURCE.replace(old, new)))


@pytest.mark.parametrize("text", ["fence > _ -> False", "store -> None", "store.open() -> pass", "_ <-> _"])
def test_a_guard_that_is_gone_or_there_twice_is_an_error(text: str) -> None:
    with pytest.raises(GuardNotFound):
        change(ast.parse(SOURCE), text)


def test_a_failure_shrinks_to_a_short_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchorbolt.state_backends.rules.check_fence", lambda *_: None)
    failed = next(outcome for seed in range(2000) if (outcome := run_seed(seed)).failure)
    shrunk = run_choices(shrink(failed.choices), traced=True)
    assert shrunk.failure
    assert sum(map(bool, shrunk.choices)) < sum(map(bool, failed.choices))
    assert sum(map(bool, shrunk.choices)) <= 30
