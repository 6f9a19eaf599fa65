"""Two drivers of one topology: the older one, asleep at whatever point, wakes up fenced off, and changes nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from anchorbolt.fault_folder import Fault, FaultAction
from anchorbolt.faults import FaultPoint
from tests.crash.conftest import AccompanyRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

POINTS = [
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACE_COMMITTED,
    FaultPoint.SINK_FILE_MOVED,
]


@pytest.mark.parametrize("point", POINTS, ids=[point.name for point in POINTS])
def test_an_older_driver_that_slept_is_fenced_and_has_no_effect(
    tmp_path: Path, accompany: AccompanyRun, point: FaultPoint
) -> None:
    faults = [Fault(point, FaultAction.HANG, txid=1)]
    run = accompany("sqlite", {"directory": str(tmp_path / "run" / "state")}, faults=faults)
    older = run.start()
    run.wait_for_fault(0)
    older.send(signal.SIGSTOP)  # its JVM and its workers go on

    newer = run.start(faulty=False)
    assert newer.end() == 0, repr(newer)
    assert run.differences() == []

    run.faults.release()
    older.send(signal.SIGCONT)
    assert older.end() == 4, repr(older)
    assert "a newer driver" in older.err or "another driver runs this topology" in older.err
    assert run.differences() == []
