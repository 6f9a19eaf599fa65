"""What Spark runs twice has one effect: lost executors, recomputed stages, speculation, an attempt that wakes late.

A task that Spark retries because its worker died is in `test_fault_points`.
"""

import os
import re
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from anchorbolt.testing import Fault, FaultAction, FaultPoint
from tests.cli.command import wait_until
from tests.conftest import StartRedis
from tests.crash.conftest import AccompanyRun
from tests.servers.redis_server import DURABLE
from tests.servers.server_process import stop_process
from tests.servers.spark_standalone import SparkStandalone
from tests.support.stores import WORKERS

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(WORKERS), reason="in workers that stay, Spark runs no task of a bolt"),
]


def parent_of(pid: int, is_it: Callable[[str], bool]) -> int:
    """Return the nearest process above `pid` whose command line passes `is_it`."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if is_it(Path(f"/proc/{pid}/cmdline").read_text()):
            return pid
    raise AssertionError("no such process above it")


def wait_until_idle(pid: int) -> None:
    """Wait until a process has ended, or waits for something and has computed nothing for half a second."""
    looks: list[tuple[str, str, str]] = []

    def is_idle() -> bool:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return True
        looks.append((fields[0], fields[11], fields[12]))  # state, user and system time
        return fields[0] in "SZ" and len(looks) > 25 and len(set(looks[-25:])) == 1

    wait_until(is_idle, f"process {pid} idle")


def test_an_executor_lost_after_it_prepared_has_its_tasks_run_twice_with_one_effect(
    accompany: AccompanyRun, start_redis: StartRedis
) -> None:
    faults = [
        Fault(FaultPoint.TASK_PREPARED, FaultAction.DELAY, component="count", task_index=0, txid=1),
        # The last task of that stage: the executor has the blobs that `count` sent, and no task has fetched them.
        Fault(FaultPoint.TASK_PREPARED, FaultAction.HANG, component="lengths", txid=1),
    ]
    run = accompany(start_redis(**DURABLE), faults=faults)
    driver = run.start(master="local-cluster[2,1,1024]")
    worker = run.wait_for_fault(0)
    executor = parent_of(worker, lambda command: "CoarseGrainedExecutorBackend" in command)
    run.wait_for_fault(1)
    os.kill(executor, signal.SIGKILL)
    run.faults.release()
    run.assert_done(driver)
    assert "ExecutorLost" in driver.err or "Lost executor" in driver.err, repr(driver)


def test_a_stage_recomputed_for_output_that_cannot_be_fetched_has_one_effect(
    accompany: AccompanyRun, tmp_path: Path
) -> None:
    local = tmp_path / "spark-local"
    fault = Fault(FaultPoint.TASK_PREPARED, FaultAction.HANG, component="lengths", txid=1)
    run = accompany(faults=[fault])
    driver = run.start_to_first_fault(spark={"spark.local.dir": str(local)})

    def last_output() -> list[Path]:
        """The files of the stage that hangs: of both tasks of `count`, in the youngest shuffle."""
        shuffles: defaultdict[int, list[Path]] = defaultdict(list)
        for path in local.rglob("shuffle_*_0.data"):
            found = re.fullmatch(r"shuffle_(\d+)_\d+_0\.data", path.name)
            assert found is not None
            shuffles[int(found[1])].append(path)
        return shuffles[max(shuffles)] if shuffles else []

    wait_until(lambda: len(last_output()) == 2, "both tasks of `count` have written their output")
    for path in last_output():
        path.unlink()
    run.faults.release()
    run.assert_done(driver)
    assert "ShuffleBlockFetcherIterator" in driver.err, repr(driver)


def test_attempts_that_were_stopped_and_wake_after_the_commit_of_their_duplicate_have_no_effect(
    accompany: AccompanyRun, start_redis: StartRedis, tmp_path: Path
) -> None:
    cluster = SparkStandalone(tmp_path, hosts=("127.0.0.1", "127.0.0.2"))  # a duplicate needs another host
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "200ms",
        "spark.speculation.efficiency.enabled": "false",
        # By itself Spark kills the loser's Python process after two seconds.
        "spark.python.task.killTimeout": "600s",
    }
    points = [FaultPoint.TASK_BEGUN, FaultPoint.STAGED, FaultPoint.TASK_PREPARED]
    txids = [1, 4, 7]  # it wakes after the commit, and before the next wave or the one after it
    faults = [
        Fault(point, FaultAction.HANG, component="count", task_index=0, txid=txid)
        for point, txid in zip(points, txids, strict=True)
    ] + [Fault(FaultPoint.ROUND_BEGUN, FaultAction.HANG, txid=txid + 2) for txid in txids]
    run = accompany(start_redis(**DURABLE), waves=11, faults=faults)
    try:
        cluster.start()
        driver = run.start(master=cluster.url, spark=speculation)
        for number, txid in enumerate(txids):
            sleeper = run.wait_for_fault(number)
            stop_process(sleeper)
            run.faults.release(number)
            run.wait_for_commit(txid)
            os.kill(sleeper, signal.SIGCONT)
            run.wait_for_fault(len(points) + number)
            wait_until_idle(sleeper)
            run.faults.release(len(points) + number)
        run.assert_done(driver)
    finally:
        cluster.stop()
