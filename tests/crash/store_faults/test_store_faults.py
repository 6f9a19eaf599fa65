"""A real store that dies, loses data, or takes no more writes while the job runs on Spark."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.testing import Fault, FaultAction, FaultPoint
from anchorbolt.testing.conformance.base import entries
from tests.conftest import StartRedis
from tests.crash.conftest import AccompanyRun
from tests.crash.plans import STEPS, hangs
from tests.crash.runs import AccompaniedRun
from tests.crash.store_faults import harm as harms
from tests.servers.redis_server import DURABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

IMPATIENT = {"topology.message.timeout.secs": 3}
AT_PREPARE = Fault(FaultPoint.TASK_ALIGNED, FaultAction.HANG, component="count", task_index=0, txid=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with a file system of a few megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.parametrize(
    "steps",
    [(FaultPoint.SEALED, FaultPoint.DECIDED), pytest.param(STEPS, marks=pytest.mark.thorough)],
    ids=["two steps", "all steps"],
)
def test_a_redis_killed_at_any_step_and_restarted_with_its_log_is_waited_for(
    accompany: AccompanyRun, start_redis: StartRedis, steps: Sequence[FaultPoint]
) -> None:
    server = start_redis(**DURABLE)
    harms.assert_waited_for(accompany(server, faults=hangs(steps)), [harms.killed(server) for _ in steps])


@pytest.mark.thorough
def test_a_store_that_takes_no_writes_for_a_time_is_waited_for(
    accompany: AccompanyRun, start_redis: StartRedis
) -> None:
    server = start_redis(**DURABLE)
    run = accompany(server, faults=hangs([FaultPoint.TASK_ALIGNED, FaultPoint.TASK_ALIGNED]))
    driver = harms.assert_waited_for(run, [harms.full_memory(server), harms.read_only(server)])
    assert harms.MAXMEMORY in driver.err
    assert harms.READ_ONLY in driver.err


@pytest.mark.thorough
@pytest.mark.optional_in_ci
def test_a_disk_below_sqlite_that_has_room_again_is_waited_for(accompany: AccompanyRun, small_disk: Path) -> None:
    harms.assert_waited_for(accompany(small_disk / "state", faults=[AT_PREPARE]), [harms.full_disk(small_disk)])


def assert_ended(run: AccompaniedRun, harm: AbstractContextManager[None], says: str, *, tidy: bool = False) -> None:
    """Do the harm in wave 1: the run ends with a clear error and its state as before; without it, it goes on.

    A store that takes no writes at all keeps what is staged, too, until the next start, and so is not `tidy`.
    """
    driver = run.start_to_first_fault()
    with harm:
        run.faults.release()
        assert driver.end() == STATE_REFUSED, repr(driver)
        assert says in driver.said_last, repr(driver)
    assert run.differences(1, tidy=tidy) == []

    run.assert_done(run.start(faulty=False))


@pytest.mark.parametrize(("harm", "says"), [(harms.full_memory, harms.MAXMEMORY), (harms.read_only, harms.READ_ONLY)])
@pytest.mark.thorough
def test_a_redis_that_takes_no_more_writes_ends_the_run_with_its_state_as_before(
    accompany: AccompanyRun, start_redis: StartRedis, harm: Any, says: str
) -> None:
    server = start_redis(**DURABLE)
    run = accompany(server, faults=[AT_PREPARE], conf=IMPATIENT)
    assert_ended(run, harm(server), says, tidy=harm is harms.full_memory)


@pytest.mark.thorough
@pytest.mark.optional_in_ci
def test_a_full_disk_below_sqlite_ends_the_run_with_its_state_as_before(
    accompany: AccompanyRun, small_disk: Path
) -> None:
    run = accompany(small_disk / "state", faults=[AT_PREPARE], conf=IMPATIENT)
    assert_ended(run, harms.full_disk(small_disk), "full")


@pytest.mark.parametrize(
    ("point", "kept"),
    [pytest.param(FaultPoint.TASK_ALIGNED, "nothing", marks=pytest.mark.thorough), (FaultPoint.DECIDED, "an old dump")],
)
def test_a_redis_restarted_without_its_last_data_halts_the_run_and_nothing_is_written(
    accompany: AccompanyRun, start_redis: StartRedis, tmp_path: Path, point: FaultPoint, kept: str
) -> None:
    server = start_redis(**DURABLE)
    faults = [
        Fault(FaultPoint.WAVE_ENDED, FaultAction.HANG, txid=1),
        Fault(point, FaultAction.HANG, component=None if point.on_driver else "count", txid=3),
    ]
    run = accompany(server, waves=5, faults=faults)
    driver = run.start_to_first_fault()
    copy = tmp_path / "copy"
    with harms.killed(server):
        shutil.copytree(server.data, copy)
    run.faults.release(0)
    run.wait_for_fault(1)
    with harms.killed(server):
        shutil.rmtree(server.data)
        if kept == "nothing":
            server.data.mkdir()
        else:
            shutil.copytree(copy, server.data)
    harms.assert_refused(run, driver, lambda: harms.contents_of(server))


@pytest.mark.thorough
def test_a_missing_namespace_is_named_with_what_was_expected_and_nothing_is_written(
    accompany: AccompanyRun, tmp_path: Path
) -> None:
    state = tmp_path / "run" / "state"
    run = accompany(state)
    first = run.start(faulty=False)
    assert first.end() == 0, repr(first)
    for path in state.glob("*count-1.sqlite*"):
        path.unlink()
    before = contents_of_directory(state)
    (run.folder / "in" / "9999.txt").write_text("alpha\n")

    again = run.start(faulty=False)
    assert again.end() == STATE_REFUSED, repr(again)
    assert "count-1" in again.err
    assert contents_of_directory(state) == before


def contents_of_directory(directory: Path) -> Any:
    """Return each namespace's head and entries: to read a file may move its log into it."""
    provider = SqliteStateProvider(str(directory))
    contents = {}
    for namespace in provider.namespaces():
        with closing(provider.open(namespace)) as storage:
            contents[namespace] = (storage.head(), entries(storage))
    return contents
