"""Runs of this folder's job on isolated machines."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import or_skip
from tests.crash.machines.places import Directory, Place
from tests.crash.machines.runs import MachinesRun
from tests.servers.isolated_cluster import IsolatedCluster
from tests.servers.redis_server import RedisServer

MakeRun = Callable[..., MachinesRun]


class Machines(NamedTuple):
    """A cluster, and the one directory that its machines share with each other and the driver."""

    cluster: IsolatedCluster
    shared: Path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Two isolated machines that the session's tests share; a test that kills one starts it again."""
    or_skip(IsolatedCluster.require)
    shared = tmp_path_factory.mktemp("shared")
    cluster = IsolatedCluster(tmp_path_factory.mktemp("cluster"), shared=[shared])
    try:
        cluster.start()
        yield Machines(cluster, shared)
    finally:
        cluster.stop()


@pytest.fixture
def make_run(tmp_path: Path, machines: Machines, redis_database: RedisServer) -> Iterator[MakeRun]:
    """Make a run on the machines: `make_run(place, **conf)`; by default its place is in the shared directory."""
    with ExitStack() as runs:

        def make(place: Place | None = None, **conf: Any) -> MachinesRun:
            shared = machines.shared / tmp_path.name
            shared.mkdir()
            run = MachinesRun(tmp_path, machines.cluster, redis_database, place or Directory(shared), **conf)
            return runs.enter_context(closing(run))

        yield make
