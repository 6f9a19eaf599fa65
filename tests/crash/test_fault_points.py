"""SIGKILL at every named point, of the process that is there and of the other one, with SQLite and with Redis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.testing import CrashReport, CrashRunner, FaultPoint, Victim
from tests.conftest import StartRedis
from tests.crash.job import write_waves
from tests.crash.outcome import differences
from tests.crash.plans import IN_RECOVERY, ON_DRIVER, ON_WORKERS, kills, waves_for
from tests.support.redis_server import DURABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(params=["sqlite", "redis"])
def conf(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The configuration of a run whose files lie below `tmp_path / "run"`."""
    run = tmp_path / "run"
    common = {
        "topology.checkpoint.location": str(run / "checkpoint"),
        "topology.state.provider": request.param,
    }
    if request.param == "sqlite":
        return common | {"topology.state.provider.config": {"directory": str(run / "state")}}
    start_redis: StartRedis = request.getfixturevalue("start_redis")
    server = start_redis(options=DURABLE)
    pool = {"host": server.host, "port": server.port}
    return common | {"topology.state.provider.config": {"jedisPoolConfig": pool}}


def run_with_kills(
    folder: Path, conf: dict[str, Any], points: Sequence[FaultPoint], victim: Victim
) -> CrashReport:
    """Run the job with a kill at each of these points; assert that all of them struck, and that nothing is wrong."""
    waves = write_waves(folder, waves_for(points))
    runner = CrashRunner(
        "tests.crash.job:topology",
        folder,
        conf=conf,
        arguments=["--master", "local[2]"],
    )
    report = runner.run(*kills(points, victim))
    missed = [fault for fault in report.faults if fault not in report.struck]
    assert not missed, f"never struck: {missed}"
    assert differences(folder, conf, waves) == []
    return report


def test_the_driver_killed_at_each_of_its_points(conf: dict[str, Any], tmp_path: Path) -> None:
    report = run_with_kills(tmp_path / "run", conf, ON_DRIVER, Victim.HERE)
    assert len(report.starts) == len(ON_DRIVER) + 1
    recoveries = {start.recovery for start in report.starts}
    assert recoveries >= {"started", "resumed", "rolled back", "rolled forward"}


def test_a_worker_killed_at_each_of_its_points(conf: dict[str, Any], tmp_path: Path) -> None:
    report = run_with_kills(tmp_path / "run", conf, ON_WORKERS, Victim.HERE)
    assert len(report.starts) == 1, "Spark starts a worker again by itself"


def test_the_driver_killed_while_a_worker_is_at_each_of_its_points(
    conf: dict[str, Any], tmp_path: Path
) -> None:
    report = run_with_kills(tmp_path / "run", conf, ON_WORKERS, Victim.DRIVER)
    assert len(report.starts) == len(ON_WORKERS) + 1


def test_a_worker_killed_while_the_driver_is_at_each_of_its_points(
    conf: dict[str, Any], tmp_path: Path
) -> None:
    points = [point for point in ON_DRIVER if point not in IN_RECOVERY]
    report = run_with_kills(tmp_path / "run", conf, points, Victim.WORKER)
    assert len(report.starts) == 1
