"""The search for the tuple on which workers die, and when it begins."""

import math
from collections.abc import Callable, Sequence

import pytest

from anchorbolt.checkpoint.ports import Others, Round
from anchorbolt.engine.driver.isolation import Halving, Isolation
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import BoltError, WorkerLost
from anchorbolt.state_backends.state import NO_FENCE
from anchorbolt.streams.lineage import ids_of


def halved(roots: list[int], kills: Callable[[Sequence[int]], bool], first: int = 1) -> tuple[int | None, int]:
    """Search; `kills` is called with the roots of each round. Return what was found, and the number of rounds."""
    halving, rounds = Halving(first), 0
    while not halving.is_done:
        start, middle, end = halving.probe
        inside = [root for root in roots if start <= root < middle]
        others = [root for root in roots if middle <= root < end]
        rounds += 1
        if kills(inside):
            halving.died()
        else:
            halving.survived(Others(min(others), max(others), len(others)) if others else None)
    return halving.found, rounds


@pytest.mark.parametrize("tuples", [1, 2, 1000])
def test_halving_finds_the_tuple(tuples: int) -> None:
    roots = ids_of(1, tuples).tolist()
    for culprit in roots[:50]:
        found, rounds = halved(roots, lambda inside, culprit=culprit: culprit in inside)  # type: ignore[misc]
        assert found == culprit
        assert rounds < 2 * math.log2(tuples) + 9


def test_halving_finds_one_tuple_after_the_other() -> None:
    roots = sorted(ids_of(1, 100_000).tolist())
    culprits = roots[5_000::9_999]
    found, first, rounds = [], 1, 0
    for _ in culprits:
        culprit, more = halved(roots, lambda inside: not set(culprits).isdisjoint(inside), first)
        assert culprit is not None
        found.append(culprit)
        first, rounds = culprit + 1, rounds + more
    assert found == culprits
    assert rounds < 25 * len(culprits)


@pytest.mark.parametrize("struck", range(20))
def test_halving_accuses_no_tuple_when_a_worker_is_killed_from_outside(struck: int) -> None:
    roots = ids_of(1, 1000).tolist()
    calls = iter(range(100))
    assert halved(roots, lambda inside: next(calls) == struck)[0] is None
    calls = iter(range(100))
    assert halved(roots, lambda inside: next(calls) == struck or roots[0] in inside)[0] in (None, roots[0])


def searched(isolation: Isolation, roots: list[int], dies: Callable[[Sequence[int]], bool]) -> Round:
    """Run rounds as long as a search goes on; `dies` is called with the roots of each. Return the next round."""
    lost = WorkerLost("killed", txid=0)
    while (current := isolation.begin(Round(0, NO_FENCE))).probe is not None:
        assert current.isolates
        start, middle, end = current.probe
        wanted = [root for root in roots if root not in current.excluded_rows]
        others = [root for root in wanted if middle <= root < end]
        report = TaskReport(("in", 0), "", 0)
        report.others = Others(min(others), max(others), len(others)) if others else None
        if dies([root for root in wanted if start <= root < middle]):
            assert isolation.failed(lost)
        else:
            assert isolation.is_probe([report])
    return current


def test_workers_that_are_killed_from_outside_twice_in_a_wave_cost_no_tuple() -> None:
    isolation, lost, roots = Isolation(100, None), WorkerLost("killed", txid=0), ids_of(1, 100).tolist()
    isolation.begin(Round(0, NO_FENCE))
    assert [isolation.failed(lost), isolation.failed(lost)] == [False, True]
    current = searched(isolation, roots, lambda inside: False)
    assert (current.excluded_rows, current.isolates) == (frozenset(), False)
    assert not isolation.failed(lost), "a search begins with the second death"


def test_one_death_after_a_bolt_has_raised_begins_no_search_and_the_round_isolates_again() -> None:
    isolation = Isolation(100, None)
    isolation.begin(Round(0, NO_FENCE))
    raised = BoltError("raised", component="checks", task_index=0, tuple_text="…")
    assert [isolation.failed(raised), isolation.failed(WorkerLost("killed", txid=0))] == [True, False]
    current = isolation.begin(Round(0, NO_FENCE))
    assert (current.isolates, current.probe) == (True, None)


def test_tuples_on_which_workers_die_are_excluded_one_after_the_other() -> None:
    isolation, lost, roots = Isolation(100, None), WorkerLost("killed", txid=0), ids_of(1, 1000).tolist()
    culprits = set(roots[::300])
    isolation.begin(Round(0, NO_FENCE))
    assert not isolation.failed(lost)
    found: frozenset[int] = frozenset()
    while found != culprits:
        assert isolation.failed(lost)
        current = searched(isolation, roots, lambda inside: not culprits.isdisjoint(inside))
        assert len(current.excluded_rows) == len(found) + 1
        found = current.excluded_rows
