"""The parts of small transactional topologies, and how a test runs one: on LocalCluster, or on both engines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine import RunHandle, SparkCluster
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.conftest import watch as watch
from tests.engine.jobs import kept_in
from tests.engine.spark.conftest import spark as spark

Run = Callable[..., RunHandle]


def words() -> MemoryTransactionalSpout:
    return MemoryTransactionalSpout({0: [("a",)], 1: []}, ["word"], 10)


@pytest.fixture
def builder() -> TransactionalTopologyBuilder:
    """A builder with the spout `spout`, and no bolt yet."""
    return TransactionalTopologyBuilder("global-count", "spout", words(), parallelism=3)


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "notes").mkdir()
    return {**kept_in(tmp_path), "notes": str(tmp_path / "notes")}


def submitted(cluster: Any, conf: dict[str, Any]) -> Run:
    """Return a function that runs a topology until no batch is ready, with settings like `max_spout_pending=2`."""

    def run(topology: Topology, *, wait: bool = True, on_wave: Any = None, **given: Any) -> RunHandle:
        settings = {f"topology.{name.replace('_', '.')}": value for name, value in given.items()}
        handle: RunHandle = cluster.submit(topology, {**conf, **settings}, until_empty=True, on_wave=on_wave)
        if wait:
            assert handle.await_termination(120)
        return handle

    return run


@pytest.fixture
def run(conf: dict[str, Any]) -> Run:
    """Runs a topology on a `LocalCluster`, the same one in the whole test."""
    return submitted(LocalCluster(), conf)


@pytest.fixture(params=["local", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def run_on(request: pytest.FixtureRequest, conf: dict[str, Any]) -> Run:
    """Runs a topology on each engine."""
    cluster: Any = LocalCluster() if request.param == "local" else SparkCluster(request.getfixturevalue("spark"))
    return submitted(cluster, conf)
