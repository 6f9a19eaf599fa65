"""Machines that share nothing but the network and what a test names; one that is killed comes back empty."""

import os
from pathlib import Path

import pytest

from tests.conftest import StartMachines
from tests.servers.isolated_cluster import descendants
from tests.servers.machine_init import __file__ as init

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_machines_share_only_what_is_named_and_a_killed_one_comes_back_empty(
    start_machines: StartMachines, tmp_path: Path
) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    for folder in (shared, private):
        folder.mkdir()
        (folder / "of-driver").touch()
    cluster = start_machines(shared=[shared])
    assert cluster.running == [0, 1]

    def seen(number: int, path: Path) -> Path:
        return cluster.root(number) / path.relative_to("/")

    (seen(0, shared) / "of-machine").touch()
    for number in (0, 1):
        assert not seen(number, private).exists()
        assert {path.name for path in seen(number, shared).iterdir()} == {"of-driver", "of-machine"}
        assert cluster.home(number).exists()
    (cluster.home(0) / "left").touch()
    (seen(0, Path("/tmp")) / "left").touch()
    assert not (cluster.home(1) / "left").exists()
    for writable_outside in (Path(init).parent, Path.home()):
        with pytest.raises(OSError, match="Read-only file system"):
            (seen(0, writable_outside) / "left").touch()

    processes = descendants(cluster.process(0))
    assert len(processes) > 1
    cluster.kill(0)
    assert cluster.running == [1]
    assert not any(map(is_running, processes))
    cluster.start_workers(0)
    assert cluster.running == [0, 1]
    assert not (cluster.home(0) / "left").exists()
    assert not (seen(0, Path("/tmp")) / "left").exists()
    assert (seen(0, shared) / "of-machine").exists()

    processes = [pid for number in (0, 1) for pid in descendants(cluster.process(number))]
    cluster.stop()
    assert not any(map(is_running, processes))
