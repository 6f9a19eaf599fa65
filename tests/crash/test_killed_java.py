"""Spark's Java process is killed, and the driver's Python process lives: the run ends, and the next one goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from anchorbolt.faults.injection import Fault, FaultAction
from anchorbolt.faults.points import FaultPoint
from tests.crash.conftest import AccompanyRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("point", [FaultPoint.ROUND_BEGUN, FaultPoint.COMMITTED])
def test_a_driver_whose_java_process_is_killed_says_so_and_the_next_one_goes_on(
    accompany: AccompanyRun, tmp_path: Path, point: FaultPoint
) -> None:
    faults = [Fault(point, FaultAction.HANG, txid=1)]
    run = accompany("sqlite", {"directory": str(tmp_path / "run" / "state")}, faults=faults)
    driver = run.start()
    run.wait_for_fault(0)
    [java] = [pid for pid in driver.session() if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
    os.kill(java, signal.SIGKILL)
    run.faults.release()
    assert driver.end() == 1, repr(driver)
    assert "Spark's Java process is gone" in driver.said_last, repr(driver)

    again = run.start(faulty=False)
    assert again.end() == 0, repr(again)
    assert run.differences() == []
