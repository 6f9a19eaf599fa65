"""A batch that is given up: its next try, and what its former one has kept."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.ports import Round
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine.sources.batch_source import pipeline_of
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.files import open_folder
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.transactional import OpaquePartitionedTransactionalSpout, PartitionedCoordinator
from anchorbolt.transactional.batches.hand_off import folder_of
from anchorbolt.transactional.batches.pipeline import Pipeline
from tests.engine.jobs import Fields
from tests.transactional.jobs import values_topology


class ReadyOnce(PartitionedCoordinator):
    """Has a partition, and is ready for one batch."""

    def __init__(self) -> None:
        self._answers: Iterator[bool] = iter([True])

    def number_of_partitions(self) -> int:
        return 1

    def is_ready(self) -> bool:
        return next(self._answers, False)


class Spout(Fields, OpaquePartitionedTransactionalSpout):
    fields = ("tx", "number")

    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return ReadyOnce()

    def emitter(self, conf: Any, context: Any) -> Any:
        raise AssertionError("no task runs")


class Processing:
    """A processing phase that ends when the test says so."""

    ends_at_once = False

    def __init__(self, current: Round, notify: Callable[[], None]) -> None:
        self.round, self.notify = current, notify
        self.is_ended = self.ends_at_once

    def reports(self) -> Sequence[TaskReport]:
        return [TaskReport(("spout", 0), "attempt", self.round.fence.seq, metadata={})]

    def cancel(self) -> None:
        """The phase runs on for a while."""


@pytest.fixture
def phases() -> list[Processing]:
    return []


@pytest.fixture
def pipeline(tmp_path: Path, phases: list[Processing]) -> Pipeline:
    plan = prepare_plan(values_topology(Spout()), {}, memory=MemoryStateProvider(), location=str(tmp_path))
    log = DecisionLog(plan.provider.open("record"))
    log.claim()

    class Started:
        record = DecisionRecord(state=CheckpointState(0, Phase.COMMITTED))

        def begin_batches(self, *, waits: bool) -> None:
            """Note nothing: no bolt runs."""

    def start(current: Round, notify: Callable[[], None]) -> Processing:
        phases.append(Processing(current, notify))
        return phases[-1]

    pipeline = pipeline_of(plan, log, open_folder(str(tmp_path)), Mock(session=None, start=start))
    spout: Any = Started()
    pipeline.open(spout)
    pipeline.fill()
    return pipeline


def test_a_batch_that_is_tried_again_does_not_wait_until_it_is_ready(
    pipeline: Pipeline, phases: list[Processing], monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = phases
    pipeline.give_up(1)
    monkeypatch.setattr(Processing, "ends_at_once", True)
    flight, _ = pipeline.take(1)
    assert [phase.round.txid for phase in phases] == [1, 1]
    assert flight.fence > first.round.fence


def test_what_a_try_kept_that_was_given_up_goes_when_its_phase_has_ended(
    pipeline: Pipeline, phases: list[Processing], tmp_path: Path
) -> None:
    [phase] = phases
    kept = tmp_path / folder_of(phase.round.fence) / "total-0-attempt"
    pipeline.give_up(1)
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"kept meanwhile")
    phase.is_ended = True
    phase.notify()
    assert not kept.exists()
