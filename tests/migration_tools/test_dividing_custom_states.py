"""States of a user's own class, divided among another number of tasks by its `split` and `merge`."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine import LocalCluster
from anchorbolt.errors import MigrationRefused, TopologyError
from anchorbolt.faults.points import FaultPoint
from anchorbolt.migration_tools.rescaling import rescale_state
from anchorbolt.topology import TopologyBuilder
from tests.engine.custom_states import CountInCustom, CustomProvider, committed_counts
from tests.engine.jobs import words
from tests.migration_tools.conftest import MSGPACK, killed_at

_FIRST, _THEN = "a b a c d e f g h i j", "a c k"


class Job:
    """A topology whose only stateful bolt has a custom state."""

    def __init__(self, folder: Path, bolt: str = "attempts") -> None:
        self.bolt, self.custom = bolt, folder / "custom"
        config = {"directory": str(folder / "sqlite"), "custom": str(self.custom)}
        self.provider = CustomProvider(**config)
        self.conf: dict[str, Any] = {
            "topology.state.provider": "tests.engine.custom_states.CustomProvider",
            "topology.state.provider.config": config,
            "topology.checkpoint.location": str(folder / "checkpoint"),
            "topology.state.rescale": True,
        }

    def run(self, tasks: int, *batches: str) -> Counter[str]:
        builder = TopologyBuilder()
        builder.set_spout("words", words(*batches))
        builder.set_bolt(self.bolt, CountInCustom(), tasks).fields_grouping("words", "word")
        assert LocalCluster().submit(builder.create_topology("custom"), self.conf).await_termination(60)
        return self.counts(tasks)

    def counts(self, tasks: int) -> Counter[str]:
        return committed_counts(self.custom, "custom", self.bolt, tasks)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_counts_go_on_with_more_and_with_fewer_tasks(job: Job) -> None:
    job.run(2, _FIRST)
    assert job.run(5, _THEN) == Counter((_FIRST + " " + _THEN).split())
    assert job.run(3, _THEN) == Counter((_FIRST + f" {_THEN}" * 2).split())
    assert job.run(5) == job.counts(5) == Counter((_FIRST + f" {_THEN}" * 2).split())
    assert not list(job.custom.rglob("prepared*"))


@pytest.mark.parametrize("point", [FaultPoint.DECIDED, FaultPoint.DECISION_COPIED])
def test_a_start_that_is_killed_is_finished_by_the_next(job: Job, point: FaultPoint) -> None:
    job.run(2, _FIRST)
    with killed_at(point, 1):
        job.run(5, _THEN)
    assert job.run(5, _THEN) == Counter((_FIRST + " " + _THEN).split())
    assert job.run(2) == Counter((_FIRST + " " + _THEN).split())


def test_without_split_and_merge_it_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    job = Job(tmp_path, "storm")
    before = job.run(2, _FIRST)
    with pytest.raises(TopologyError):
        job.run(3, _THEN)
    assert job.run(2) == before


def test_the_command_does_not_know_the_class(job: Job) -> None:
    before = job.run(2, _FIRST)
    with pytest.raises(MigrationRefused):
        rescale_state(job.provider, "custom", "custom", {"attempts": 3}, MSGPACK)
    assert job.run(2) == before
