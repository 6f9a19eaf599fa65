"""At named points: SIGKILL of the process that is there or of the other one, and an older driver that falls asleep.

`make crash-test` runs every set of kills, and a sleep at every point of the driver, on every provider.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from anchorbolt.testing import Fault, FaultPoint, Victim
from tests.crash.plans import COMMITS, DRIVER_PHASES, IN_WAVES, ON_DRIVER, ON_WORKERS
from tests.crash.runs import CHAINED_JOB, kill_at, run_with, wrong_once_it_wakes
from tests.support.stores import settings_of, store_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MAIN_PHASES = (FaultPoint.ROUND_ENDED, FaultPoint.ROLLED_BACK, FaultPoint.DECIDED, FaultPoint.NAMESPACE_COMMITTED)
AT_DECISION = ON_DRIVER.index(FaultPoint.DECIDED)


def thorough(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("provider", "points", "victim"),
    [
        ("sqlite", MAIN_PHASES, Victim.HERE),
        ("redis", ON_WORKERS, Victim.HERE),
        ("hbase", COMMITS[:1], Victim.DRIVER),
        thorough("hbase", COMMITS, Victim.DRIVER),
        thorough("redis", DRIVER_PHASES, Victim.HERE),
        thorough("sqlite", ON_WORKERS, Victim.HERE),
        thorough("sqlite", IN_WAVES, Victim.WORKER),
        thorough("hbase", COMMITS, Victim.HERE),
        thorough("redis-cluster", ON_DRIVER[:AT_DECISION], Victim.HERE),
        thorough("sqlite", ON_DRIVER[AT_DECISION:], Victim.HERE),
        thorough("hbase", IN_WAVES, Victim.WORKER),
        thorough("redis-cluster", ON_WORKERS, Victim.HERE),
        thorough("hbase", ON_WORKERS, Victim.HERE),
        thorough("hbase", ON_WORKERS, Victim.DRIVER),
    ],
)
def test_a_kill_at_each_point_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, provider: str, points: Sequence[FaultPoint], victim: Victim
) -> None:
    try:
        with store_of(provider, tmp_path) as store:
            run = kill_at(tmp_path / "run", settings_of(store), points, victim)
    except LookupError as missing:
        pytest.skip(str(missing))
    assert run.wrong == []
    is_driver = points[0].on_driver and not (provider == "hbase" and points[0] in COMMITS)
    kills_driver = victim is Victim.DRIVER or (victim is Victim.HERE and is_driver)
    assert len(run.report.starts) == (len(points) + 1 if kills_driver else 1), "Spark starts a worker again by itself"
    recoveries = {start.recovery for start in run.report.starts}
    if kills_driver and FaultPoint.DECIDED in points:
        assert recoveries >= {"resumed", "rolled forward"}
    if kills_driver and points == COMMITS:
        assert recoveries == {"started", "rolled forward"}
    if kills_driver and FaultPoint.ROUND_ENDED in points:
        assert "rolled back" in recoveries


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("provider", "points", "victim"),
    [
        ("sqlite", ON_WORKERS, Victim.HERE),
        ("redis", IN_WAVES, Victim.WORKER),
        ("sqlite", DRIVER_PHASES, Victim.HERE),
        ("redis", ON_WORKERS, Victim.DRIVER),
    ],
)
def test_a_kill_at_each_point_loses_nothing_and_counts_nothing_twice_where_bolts_are_chained(
    tmp_path: Path, provider: str, points: Sequence[FaultPoint], victim: Victim
) -> None:
    with store_of(provider, tmp_path) as store:
        assert kill_at(tmp_path / "run", settings_of(store), points, victim, job=CHAINED_JOB).wrong == []


WITHIN_A_CHAIN = (
    ("split", FaultPoint.TASK_PREPARED),
    ("pass", FaultPoint.TASK_BEGUN),
    ("pass", FaultPoint.TASK_EXECUTED),
    ("pass", FaultPoint.TASK_PREPARED),
    ("count", FaultPoint.SEALED),
    ("count", FaultPoint.TASK_PREPARED),
    ("out", FaultPoint.TASK_EXECUTED),
    ("out", FaultPoint.SINK_FILE_WRITTEN),
    ("out", FaultPoint.TASK_PREPARED),
)
"""Points at which some tasks of a partition have worked or prepared, and others have not."""


def test_a_worker_may_die_between_two_tasks_of_a_chain(tmp_path: Path) -> None:
    faults = [Fault(point, component=component, txid=txid) for txid, (component, point) in enumerate(WITHIN_A_CHAIN, 1)]
    with store_of("sqlite", tmp_path) as store:
        run = run_with(tmp_path / "run", settings_of(store), faults, len(faults) + 2, job=CHAINED_JOB)
    assert run.wrong == []
    assert len(run.report.starts) == 1


@pytest.mark.usefixtures("redis_program")
@pytest.mark.parametrize(
    ("provider", "point"),
    [
        ("redis", FaultPoint.ROUND_ENDED),
        thorough("sqlite", FaultPoint.WAVE_ENDED),
        thorough("hbase", FaultPoint.HOOKS_CALLED),  # before its commit tasks run
        thorough("hbase", FaultPoint.SLICE_APPLIED),  # while they run
        thorough("hbase", FaultPoint.NAMESPACE_COMMITTED),
    ],
)
def test_a_driver_that_slept_while_a_newer_one_ran_is_fenced_and_has_no_effect(
    tmp_path: Path, provider: str, point: FaultPoint
) -> None:
    try:
        with store_of(provider, tmp_path) as store:
            assert wrong_once_it_wakes(tmp_path, store, point) == []
    except LookupError as missing:
        pytest.skip(str(missing))
