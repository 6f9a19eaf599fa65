"""SIGKILL at every named point, of the process that is there and of the other one; each set of kills on one provider.

`make crash-test` runs every set on every provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.testing import CrashReport, CrashRunner, FaultPoint, Victim
from tests.conftest import StartHBase, StartRedis, StartRedisCluster
from tests.crash.outcome import differences
from tests.crash.plans import IN_RECOVERY, ON_DRIVER, ON_WORKERS, input_for, kills
from tests.crash.stores import config_of, config_of_cluster, config_of_hbase
from tests.support.redis_server import DURABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def sqlite_conf(tmp_path: Path) -> dict[str, Any]:
    """The configuration of a run below `tmp_path / "run"`, with its state in SQLite."""
    return conf_of(tmp_path, "sqlite", {"directory": str(tmp_path / "run" / "state")})


@pytest.fixture
def redis_conf(tmp_path: Path, start_redis: StartRedis) -> dict[str, Any]:
    """The same with its state in a Redis of its own."""
    return conf_of(tmp_path, "redis", config_of(start_redis(**DURABLE)))


@pytest.fixture
def redis_cluster_conf(tmp_path: Path, start_redis_cluster: StartRedisCluster) -> dict[str, Any]:
    """The same in a Redis Cluster of its own."""
    return conf_of(tmp_path, "redis-cluster", config_of_cluster(start_redis_cluster(**DURABLE)))


@pytest.fixture
def hbase_conf(tmp_path: Path, start_hbase: StartHBase) -> dict[str, Any]:
    """The same in an HBase of its own."""
    return conf_of(tmp_path, "hbase", config_of_hbase(start_hbase()))


@pytest.fixture
def conf(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The configuration that a test's parameter names."""
    chosen: dict[str, Any] = request.getfixturevalue(request.param)
    return chosen


def conf_of(tmp_path: Path, provider: str, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "topology.checkpoint.location": str(tmp_path / "run" / "checkpoint"),
        "topology.state.provider": provider,
        "topology.state.provider.config": config,
    }


def run_with_kills(
    folder: Path, conf: dict[str, Any], points: Sequence[FaultPoint], victim: Victim
) -> CrashReport:
    """Run the job with a kill at each of these points; assert that all of them struck, and that nothing is wrong."""
    waves = input_for(folder, points)
    runner = CrashRunner(
        "tests.crash.job:topology",
        folder,
        conf=conf,
        arguments=["--master", "local[2]"],
        start_timeout_s=600,
    )
    report = runner.run(*kills(points, victim))
    missed = [fault for fault in report.faults if fault not in report.struck]
    assert not missed, f"never struck: {missed}"
    assert differences(folder, conf, waves) == []
    return report


@pytest.mark.parametrize(
    ("conf", "points", "recoveries"),
    [
        ("redis_cluster_conf", ON_DRIVER[: ON_DRIVER.index(FaultPoint.DECIDED)], {"resumed", "rolled back"}),
        ("sqlite_conf", ON_DRIVER[ON_DRIVER.index(FaultPoint.DECIDED) :], {"resumed", "rolled forward"}),
    ],
    ids=["undecided", "decided"],
    indirect=["conf"],
)
def test_the_driver_killed_at_each_of_its_points(
    conf: dict[str, Any], tmp_path: Path, points: Sequence[FaultPoint], recoveries: set[str]
) -> None:
    report = run_with_kills(tmp_path / "run", conf, points, Victim.HERE)
    assert len(report.starts) == len(points) + 1
    assert {start.recovery for start in report.starts} >= recoveries


@pytest.mark.parametrize("conf", ["sqlite_conf", "hbase_conf"], indirect=True)
def test_a_worker_killed_while_the_driver_is_at_each_of_its_points(
    conf: dict[str, Any], tmp_path: Path
) -> None:
    points = [point for point in ON_DRIVER if point not in IN_RECOVERY]
    report = run_with_kills(tmp_path / "run", conf, points, Victim.WORKER)
    assert len(report.starts) == 1, "Spark starts a worker again by itself"


@pytest.mark.parametrize("conf", ["redis_conf", "redis_cluster_conf", "hbase_conf"], indirect=True)
def test_a_worker_killed_at_each_of_its_points(conf: dict[str, Any], tmp_path: Path) -> None:
    report = run_with_kills(tmp_path / "run", conf, ON_WORKERS, Victim.HERE)
    assert len(report.starts) == 1


def test_the_driver_killed_while_a_worker_is_at_each_of_its_points(
    hbase_conf: dict[str, Any], tmp_path: Path
) -> None:
    report = run_with_kills(tmp_path / "run", hbase_conf, ON_WORKERS, Victim.DRIVER)
    assert len(report.starts) == len(ON_WORKERS) + 1
