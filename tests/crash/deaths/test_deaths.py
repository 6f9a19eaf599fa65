"""Messages of a Redis stream are counted exactly once, whoever dies; those with unstable ids at least once."""

from pathlib import Path

import pytest

from tests.crash.deaths.plan import one_of_each, plan
from tests.crash.deaths.report import Report
from tests.crash.deaths.runs import Run, Wanted

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900), pytest.mark.usefixtures("redis_program")]


def run(home: Path, wanted: Wanted) -> Report:
    report = Run(home, wanted, print).run()
    assert report.wrong == []
    return report


def test_a_worker_redis_and_a_driver_die(tmp_path: Path) -> None:
    report = run(tmp_path, Wanted(1, 20_000, one_of_each(20_000)))
    assert report.not_struck == []
    assert report.starts == 2


@pytest.mark.parametrize(
    ("store", "late", "stable"),
    [("redis", True, True), ("sqlite", False, True), ("redis", False, False)],
    ids=["late acks", "state in SQLite", "unstable ids"],
)
def test_many_die_one_after_the_other(tmp_path: Path, store: str, late: bool, stable: bool) -> None:
    report = run(tmp_path, Wanted(2, 40_000, plan(2, 8, 40_000), store, late, stable))
    assert report.killed.total() > 4, "the others come too late on a fast machine"
