"""What a run needs is gone: Java, input, the checkpoint location; and states of a user's own under SIGKILL."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from anchorbolt.cli.exit_codes import JOB_FAILED, STATE_REFUSED
from anchorbolt.testing import CrashRunner, Fault, FaultAction, FaultPoint
from tests.crash.conftest import AccompanyRun
from tests.crash.job import CUSTOM, TASKS, expected_counts, expected_rows, write_waves
from tests.crash.outcome import lost_and_twice
from tests.crash.plans import hangs
from tests.engine.custom_states import committed_counts

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.mark.parametrize("point", [FaultPoint.ROUND_BEGUN, FaultPoint.COMMITTED])
def test_a_driver_whose_java_process_is_killed_says_so_and_the_next_one_goes_on(
    accompany: AccompanyRun, point: FaultPoint
) -> None:
    run = accompany(faults=hangs([point]))
    driver = run.start_to_first_fault()
    [java] = [pid for pid in driver.session() if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
    os.kill(java, signal.SIGKILL)
    run.faults.release()
    assert driver.end() == JOB_FAILED, repr(driver)
    assert "Java" in driver.said_last, repr(driver)
    assert "exit code -9" in driver.said_last, repr(driver)
    run.assert_done(run.start(faulty=False))


def test_a_batch_whose_files_are_gone_is_refused_until_they_are_back(accompany: AccompanyRun, tmp_path: Path) -> None:
    run = accompany(faults=hangs([FaultPoint.ROUND_BEGUN]))
    driver = run.start_to_first_fault()
    file = run.folder / "in" / "0001.txt"
    away = file.rename(tmp_path / "0001.txt")
    run.faults.release()
    assert driver.end() == JOB_FAILED, repr(driver)
    assert str(file) in driver.err

    again = run.start(faulty=False)
    assert again.end() == JOB_FAILED, "Spark itself would go on without its rows"
    assert str(file) in again.said_last, repr(again)
    assert run.differences(1) == []

    away.rename(file)
    run.assert_done(run.start(faulty=False))


def test_a_checkpoint_location_that_is_lost_with_rows_that_wait_can_be_gone_on_without(accompany: AccompanyRun) -> None:
    faults = [Fault(FaultPoint.NAMESPACES_COMMITTED, FaultAction.KILL, txid=2)]
    run = accompany(faults=faults)
    assert run.start().end() == -signal.SIGKILL
    shutil.rmtree(run.folder / "checkpoint")
    for counted in ("0000.txt", "0001.txt", "0002.txt"):
        (run.folder / "in" / counted).unlink()

    refused = run.start(faulty=False)
    assert refused.end() == STATE_REFUSED, repr(refused)
    assert "topology.checkpoint.accept.new.query" in refused.err

    run.conf["topology.checkpoint.accept.new.query"] = True
    accepted = run.start(faulty=False)
    assert accepted.end() == 0, repr(accepted)
    waiting = [row for row in expected_rows(run.waves) if row[0] == 2]
    assert lost_and_twice(run.folder, run.conf, run.waves) == (len(waiting), 0), "those rows, and nothing of the state"


@pytest.mark.timeout(900)
def test_both_kinds_of_state_count_each_word_once_though_tasks_prepare_twice(tmp_path: Path) -> None:
    folder, custom = tmp_path / "run", tmp_path / "custom"
    (folder / "state").mkdir(parents=True)
    waves = write_waves(folder, 8)
    runner = CrashRunner(
        "tests.crash.job:custom",
        folder,
        conf={
            "topology.checkpoint.location": str(folder / "checkpoint"),
            "topology.state.provider": "tests.engine.custom_states.CustomProvider",
            "topology.state.provider.config": {"directory": str(folder / "state"), "custom": str(custom)},
        },
        arguments=["--master", "local[2,4]"],  # a task has four attempts, within one round
    )
    report = runner.run(
        Fault(FaultPoint.STAGED, component="attempts", txid=1),  # has prepared, and is not sealed
        Fault(FaultPoint.SEALED, component="storm", txid=1),  # is sealed, and has not said so
        Fault(FaultPoint.TASK_PREPARED, component="attempts", txid=2),
        Fault(FaultPoint.DECIDED, txid=3),
        Fault(FaultPoint.NAMESPACE_COMMITTED, txid=4),
        Fault(FaultPoint.ROUND_ENDED, txid=5),
    )
    assert report.struck == report.faults
    assert "is tried again" not in report.starts[0].output, "Spark ran the tasks again, not Anchorbolt the round"
    assert [start.recovery for start in report.starts] == ["started", "rolled forward", "rolled forward", "rolled back"]
    for component in ("storm", "attempts"):
        assert committed_counts(custom, CUSTOM, component, TASKS) == expected_counts(waves)
