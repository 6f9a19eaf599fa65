"""Poison rows become dead letters once, and all others are counted once, of both kinds of spouts, whoever dies."""

from pathlib import Path

import pytest

from tests.crash.dead_letters.runs import Letters, LettersRun
from tests.crash.deaths.plan import Kill, Victim, plan
from tests.crash.deaths.report import Report
from tests.crash.deaths.runs import Wanted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("redis_program")]

KINDS = pytest.mark.parametrize("is_reliable", [False, True], ids=["stream", "reliable"])


def run(home: Path, wanted: Wanted, letters: Letters) -> Report:
    report = LettersRun(home, wanted, letters, print).run()
    assert report.wrong == []
    return report


@pytest.mark.parametrize(
    "is_reliable", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["stream", "reliable"]
)
def test_a_driver_dies_between_waves_with_poison(tmp_path: Path, is_reliable: bool) -> None:
    kills = [Kill(Victim.DRIVER_AND_JVM, 3000, 0.1)]
    letters = Letters(poison=30, is_reliable=is_reliable, in_redis=is_reliable, files=4, rows_per_wave=2000)
    report = run(tmp_path, Wanted(1, 10_000, kills, "redis" if is_reliable else "sqlite"), letters)
    assert (report.starts, report.not_struck) == (2, [])
    assert report.most_rounds < 8, "all poison of a wave is found at once"


@pytest.mark.thorough
@KINDS
def test_many_die_one_after_the_other_and_some_of_a_row(tmp_path: Path, is_reliable: bool) -> None:
    letters = Letters(poison=80, deadly=2, is_reliable=is_reliable, files=8)
    report = run(tmp_path, Wanted(2, 40_000, plan(2, 8, 40_000)), letters)
    assert report.killed.total() > 4, "the others come too late on a fast machine"


@pytest.mark.thorough
@KINDS
def test_one_row_of_ten_thousand_kills_its_worker(tmp_path: Path, is_reliable: bool) -> None:
    letters = Letters(poison=0, deadly=1, is_reliable=is_reliable, files=1, rows_per_wave=10_000)
    report = run(tmp_path, Wanted(3, 10_000, []), letters)
    assert report.most_rounds < 30
