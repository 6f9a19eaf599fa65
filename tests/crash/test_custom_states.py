"""States of a user's own under SIGKILL: of workers, whose tasks Spark itself runs again, and of the driver."""

from pathlib import Path

import pytest

from anchorbolt.testing import CrashRunner, Fault, FaultPoint
from tests.crash.job import CUSTOM, TASKS, expected_counts, write_waves
from tests.engine.custom_states import committed_counts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.thorough
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
