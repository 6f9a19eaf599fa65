"""How `CrashRunner` reports a crash test that it cannot finish. The jobs here never start Spark."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import WRONG_USAGE
from anchorbolt.errors import ConfigError
from anchorbolt.faults.injection import FaultFolder
from anchorbolt.testing import CrashRunner, CrashTestError, Fault, FaultAction, FaultPoint
from tests.cli.command import wait_until

HANGS = """
from anchorbolt.faults.injection import install_faults
from anchorbolt.faults.points import FaultPoint, reach

install_faults()
reach(FaultPoint.ROUND_BEGUN, txid=1)
"""


def test_a_job_that_is_refused_as_wrong_usage_is_started_once(tmp_path: Path) -> None:
    with pytest.raises(CrashTestError) as failure:
        CrashRunner("no_such_module:topology", tmp_path).run(Fault(FaultPoint.DECIDED))
    assert f"exit code {WRONG_USAGE}" in failure.value.message
    assert "no_such_module" in failure.value.message.partition("\n")[2], "the job's own error is shown"
    assert [log.name for log in tmp_path.glob("start-*.log")] == ["start-0.log"]


@pytest.mark.parametrize("given", [[Fault(FaultPoint.DECIDED)], FaultPoint.DECIDED])
def test_what_is_no_fault_is_refused_before_the_job_is_started(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ConfigError) as refusal:
        CrashRunner("no_such_module:topology", tmp_path / "run").run(given)
    assert f"{given!r} is not a Fault" in refusal.value.message
    assert "run(*faults)" in refusal.value.message
    assert not (tmp_path / "run").exists()


def test_a_start_that_takes_too_long_is_shown_with_the_faults_that_had_struck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TimedOutOnceStruck(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if timeout is None:
                return super().wait()
            folder = FaultFolder(tmp_path / "faults")
            wait_until(lambda: folder.has_struck(0) or self.poll() is not None, "the fault struck")
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr("anchorbolt.testing.crash.subprocess.Popen", TimedOutOnceStruck)
    (tmp_path / "hanging_job.py").write_text(HANGS)
    with pytest.raises(CrashTestError) as failure:
        CrashRunner("hanging_job:topology", tmp_path, start_timeout_s=77).run(
            Fault(FaultPoint.ROUND_BEGUN, FaultAction.HANG, txid=1), Fault(FaultPoint.DECIDED)
        )
    assert "took more than 77 s, in start 1; 1 of 2 faults had struck: HANG at ROUND_BEGUN txid=1" in str(failure.value)
    assert "faults/released-0" in failure.value.message
