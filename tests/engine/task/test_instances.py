"""Which instance runs a task's next wave, and what a process keeps of instances that run none."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anchorbolt.checkpoint.decision import Committed
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task import instances
from anchorbolt.engine.task.bolt_task import run_bolt_tasks
from anchorbolt.engine.task.instance import Instance
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope, TaskReport, TuplesMessage, encode_message
from anchorbolt.engine.task.messages import reports_in as reports_of
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.streams import Tuple
from tests.engine.jobs import CountWords, StatefulBolt, counted, feeder

COUNT, OTHER, THIRD = ("count", 0), ("count", 1), ("count", 2)

closed: list[StatefulBolt] = []


class Filter(CountWords):
    """Counts the words that begin with `+`, and changes no state for others."""

    def execute(self, tup: Tuple) -> None:
        if tup["word"].startswith("+"):
            super().execute(tup)

    def cleanup(self) -> None:
        closed.append(self)


class Cluster:
    """The driver's side of some waves, and the processes that run their tasks."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self.current = Round(0, Fence(1, 1))

    def run(self, registry: InstanceRegistry, *words: str, task: TaskKey = COUNT) -> TaskReport:
        """Run an attempt of a task in a process."""
        level, partition = self.plan.wiring.places[task]
        message = TuplesMessage(("split", 0), 1, "a" * 32, 0, "default", len(words), [list(words)])
        sent = [Envelope(partition, level, partition, encode_message(message))]
        envelopes = list(run_bolt_tasks(self.plan, [task], self.current, registry, sent))
        [report] = reports_of((each for each in envelopes if each.level == self.plan.wiring.driver_level), self.current)
        assert report.failure is None
        return report

    def commit(self, *reports: TaskReport) -> None:
        """Commit a wave of these attempts, and begin the next one."""
        before = self.current
        committed = dict(before.committed)
        for report in reports:
            seal = report.outcome.seal
            if seal is not None:
                namespace = self.plan.wiring.namespace(report.task)
                self.plan.provider.open(namespace).commit(before.fence, before.txid, report.attempt)
                committed[namespace] = Committed(before.txid, report.attempt)
        winners = {report.task: report.attempt for report in reports}
        self._next(txid=before.txid + 1, committed=committed, task_winners=winners)

    def roll_back(self) -> None:
        """Roll the round back, and begin the next one."""
        for namespace in self.plan.wiring.namespaces:
            self.plan.provider.open(namespace).rollback(Fence(1, self.current.fence.seq + 1))
        rolled_back = (*self.current.rolled_back, self.current.fence.seq)
        self._next(rolled_back=rolled_back, task_winners={})

    def _next(self, **changed: object) -> None:
        self.current = replace(self.current, fence=Fence(1, self.current.fence.seq + 2), **changed)  # type: ignore[arg-type]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    closed.clear()
    topology = counted(feeder(), Filter(), parallelism=3)
    return Cluster(prepare_plan(topology, None, memory=MemoryStateProvider(), location=str(tmp_path)))


def instance_in(registry: InstanceRegistry, task: TaskKey = COUNT) -> Instance | None:
    [run_id] = registry.runs
    return registry.instances(run_id).get(task)


@pytest.fixture
def here() -> InstanceRegistry:
    return InstanceRegistry()


@pytest.fixture
def there() -> InstanceRegistry:
    return InstanceRegistry()


def test_an_instance_is_used_again_although_other_processes_ran_waves_that_left_its_namespace_alone(
    cluster: Cluster, here: InstanceRegistry, there: InstanceRegistry
) -> None:
    cluster.commit(cluster.run(here, "+a"))
    first = instance_in(here)
    cluster.commit(cluster.run(there, "b"))
    cluster.commit(cluster.run(there, "c", "d"))
    report = cluster.run(here, "+a", "+b")
    assert instance_in(here) is first
    assert report.outcome.counters.keys_read == 1, "the cache of committed values was lost"
    assert closed == []


def test_an_instance_is_not_used_again_once_another_process_has_changed_its_namespace(
    cluster: Cluster, here: InstanceRegistry, there: InstanceRegistry
) -> None:
    cluster.commit(cluster.run(here, "+a"))
    first = instance_in(here)
    cluster.commit(cluster.run(there, "+a"))
    cluster.commit(cluster.run(here, "+a"))
    assert instance_in(here) is not first
    assert len(closed) == 1


def a_round_that_is_rolled_back(cluster: Cluster, here: InstanceRegistry) -> None:
    cluster.run(here, "b")
    cluster.roll_back()


def another_attempt_of_the_same_round(cluster: Cluster, here: InstanceRegistry) -> None:
    cluster.run(here, "b")


def a_wave_that_another_attempt_wins(cluster: Cluster, here: InstanceRegistry) -> None:
    cluster.commit(replace(cluster.run(here, "b"), attempt=uuid.uuid4().hex))


@pytest.mark.parametrize(
    "lost", [a_round_that_is_rolled_back, another_attempt_of_the_same_round, a_wave_that_another_attempt_wins]
)
def test_an_instance_is_not_used_again_after_an_attempt_that_lost_even_if_that_changed_no_state(
    lost: Callable[[Cluster, InstanceRegistry], None], cluster: Cluster, here: InstanceRegistry
) -> None:
    cluster.commit(cluster.run(here, "+a"))
    first = instance_in(here)
    lost(cluster, here)
    assert instance_in(here) is first
    cluster.run(here, "c")
    assert instance_in(here) is not first


def test_an_instance_that_was_cut_off_is_not_used_again(cluster: Cluster, here: InstanceRegistry) -> None:
    task = ("split", 0)
    first = here.obtain(cluster.plan, task, cluster.current)
    first.begin(cluster.plan, task, cluster.current, "a" * 32)
    cluster.commit()
    assert here.obtain(cluster.plan, task, cluster.current) is not first


def test_an_instance_survives_a_round_that_was_rolled_back_without_it(
    cluster: Cluster, here: InstanceRegistry, there: InstanceRegistry
) -> None:
    cluster.commit(cluster.run(here, "+a"))
    first = instance_in(here)
    cluster.run(there, "+b")
    cluster.roll_back()
    assert cluster.run(here, "+a", "+b").outcome.counters.keys_read == 1
    assert instance_in(here) is first


def test_an_instance_that_can_never_be_used_again_is_closed_with_the_next_round_of_any_task(
    cluster: Cluster, here: InstanceRegistry, there: InstanceRegistry
) -> None:
    cluster.commit(cluster.run(here, "+a"), cluster.run(here, "+b", task=OTHER))
    cluster.commit(cluster.run(there, "+a"), cluster.run(here, "c", task=OTHER))
    cluster.run(here, "d", task=OTHER)
    assert instance_in(here) is None
    assert len(closed) == 1
    assert here.cached_entries == 3, "its cache was kept"


def test_of_idle_instances_only_so_many_are_kept(
    cluster: Cluster, here: InstanceRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_INSTANCES_KEPT", 2)
    for _ in range(2):
        cluster.commit(*(cluster.run(here, "+a", task=task) for task in (COUNT, OTHER, THIRD)))
    assert closed == [], "a process keeps what it has used in its last round"
    for _ in range(2):
        cluster.commit(cluster.run(here, "+a", task=OTHER))
    assert instance_in(here) is None
    assert instance_in(here, THIRD) is not None
    assert len(closed) == 1


def test_the_instances_of_a_run_that_has_ended_are_closed(cluster: Cluster, here: InstanceRegistry) -> None:
    cluster.commit(cluster.run(here, "+a"), cluster.run(here, "+b", task=OTHER))
    here.close_run(cluster.plan.run_id)
    assert len(closed) == 2
    assert (list(here.runs), here.cached_entries) == ([], 0)
