"""Spark's Java process is killed, and the driver's Python process lives: the run ends, and the next one goes on."""

import os
import signal
from pathlib import Path

import pytest

from anchorbolt.cli.exit_codes import JOB_FAILED
from anchorbolt.faults.points import FaultPoint
from tests.crash.conftest import AccompanyRun
from tests.crash.plans import hangs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "point", [FaultPoint.ROUND_BEGUN, pytest.param(FaultPoint.COMMITTED, marks=pytest.mark.thorough)]
)
def test_a_driver_whose_java_process_is_killed_says_so_and_the_next_one_goes_on(
    accompany: AccompanyRun, point: FaultPoint
) -> None:
    run = accompany(faults=hangs([point]))
    driver = run.start()
    run.wait_for_fault(0)
    [java] = [pid for pid in driver.session() if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
    os.kill(java, signal.SIGKILL)
    run.faults.release()
    assert driver.end() == JOB_FAILED, repr(driver)
    assert "Java" in driver.said_last, repr(driver)
    run.assert_done(run.start(faulty=False))
