"""The ends of runs: no process, thread or open file is left, also if the driver was killed."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.command import wait_until
from tests.engine.workers.processes.hosts import ROOT
from tests.engine.workers.processes.jobs import FedSpout, Marks, counting, counts_of, generated
from tests.engine.workers.processes.runs import started
from tests.engine.workers.processes.transactions import batches, in_memory

pytestmark = pytest.mark.slow

DRIVER = """
import sys
from pathlib import Path
from tests.engine.workers.processes.jobs import FedSpout, Marks, counting, word_of
from tests.engine.workers.processes.runs import started

folder = Path(sys.argv[1])
spout, marks = FedSpout("driver"), Marks(folder)
with started(counting(spout, marks), folder, until_empty=False) as run:
    print(*run.wait_for_workers(), flush=True)
    spout.feed(0, [word_of(number) for number in range(200)])
    run.handle.await_termination()
"""


def is_alive(pid: int) -> bool:
    """Return whether a process runs: one that has ended and that nobody waits for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("is_in_call", [False, True])
def test_all_workers_end_soon_after_their_driver_is_killed(tmp_path: Path, is_in_call: bool) -> None:
    marks = Marks(tmp_path)
    if is_in_call:
        marks.arm()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    pids: list[int] = []
    try:
        assert driver.stdout is not None
        with driver.stdout:
            pids = [int(pid) for pid in driver.stdout.readline().split()]
            assert len(pids) == 2
            if is_in_call:
                assert marks.wait_until_held() in pids
            driver.kill()
            driver.wait()
        wait_until(lambda: not any(map(is_alive, pids)), "the end of the workers", 10)
    finally:
        driver.kill()
        driver.wait()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)


def files() -> set[str]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.add(os.readlink(each))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.parametrize("kind", ["rich", "batches", "killed"])
def test_nothing_is_left_of_a_run_that_has_ended(tmp_path: Path, kind: str) -> None:
    gc.collect()
    threads, files_before = {*threading.enumerate()}, files()
    marks = Marks(tmp_path)
    topology = batches(in_memory(1000, 50), marks) if kind == "batches" else counting(generated(1000), marks)
    with started(topology, tmp_path, conf={"topology.max.spout.pending": 3 if kind == "batches" else 100}) as run:
        if kind == "killed":
            run.wait_for_waves(1, 0)
            run.wait_for_workers()
            run.hosts.kill(0)
        run.finish()
        assert run.handle.state("count") == counts_of(1000)
        processes = [each for slot in run.hosts.started for each in slot]
        wait_until(lambda: all(each.poll() is not None for each in processes), "the end of all workers", 30)
        assert {each[-1].returncode for each in run.hosts.started} == {0}

    def running() -> list[str]:
        # The watchdog of a process looks after all its runs.
        return [each.name for each in {*threading.enumerate()} - threads if each.name != "anchorbolt-watchdog"]

    def left() -> set[str]:
        return {each for each in files() - files_before if each.startswith(("socket:", "pipe:", "anon_inode"))}

    wait_until(lambda: not running(), f"the end of all threads: {running()}", 30)
    gc.collect()
    wait_until(lambda: not left(), "the end of all connections", 30)


def test_a_worker_does_not_outlive_a_run_that_ends_while_it_starts(tmp_path: Path) -> None:
    with started(counting(FedSpout(str(tmp_path)), Marks(tmp_path)), tmp_path, until_empty=False) as run:
        run.stop()
        processes = [each for slot in run.hosts.started for each in slot]
        wait_until(lambda: all(each.poll() is not None for each in processes), "the end of all workers", 60)
