"""A batch whose files are gone is refused, by a run that is going on and by the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorbolt.fault_folder import Fault, FaultAction
from anchorbolt.faults import FaultPoint
from tests.crash.conftest import AccompanyRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_batch_whose_files_are_gone_is_refused_until_they_are_back(
    accompany: AccompanyRun, tmp_path: Path
) -> None:
    faults = [Fault(FaultPoint.WAVE_BEGUN, FaultAction.HANG, txid=1)]
    run = accompany("sqlite", {"directory": str(tmp_path / "run" / "state")}, faults=faults)
    driver = run.start()
    run.wait_for_fault(0)
    file = run.folder / "in" / "0001.txt"
    away = file.rename(tmp_path / "0001.txt")
    run.faults.release()
    assert driver.end() == 1, repr(driver)
    assert "of the source are gone (1 of 1): " in driver.err
    assert str(file) in driver.err
    assert "\tat " not in driver.err.partition("are gone")[2], "no stack of Spark's"

    again = run.start(faulty=False)
    assert again.end() == 1, "Spark itself would go on without its rows"
    assert str(file) in again.err.strip().splitlines()[-1], repr(again)
    assert run.differences(1) == []

    away.rename(file)
    last = run.start(faulty=False)
    assert last.end() == 0, repr(last)
    assert run.differences() == []
