"""The driver's side of commits in tasks: what is repeated, for how long, and what ends a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.namespaces import THREADS, Namespaces
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.config import load_conf
from anchorbolt.engine.driver.state_commits import StateCommits
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.commit_task import CommitGroup, run_commit_task
from anchorbolt.engine.task.messages import TaskReport, reports_in
from anchorbolt.errors import AnchorboltError, Fenced, InfrastructureLost, StateUnavailable, WaveFailed, WorkerLost
from anchorbolt.state_backends import State
from anchorbolt.state_backends.contract import Fence, Seal, StagedSlice
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import FeederSpout
from anchorbolt.util import retry
from anchorbolt.util.retry import NO_RETRY, RetryPolicy
from tests.engine.jobs import StatefulBolt, one_bolt

FENCE = Fence(3, 7)
ATTEMPT = "0" * 32
TASKS = 5

Fails = Callable[[CommitGroup], AnchorboltError | None]


class Runner:
    """Runs commit tasks in this process; each run may fail as the next of `outcomes` says."""

    def __init__(self, plan: ExecutionPlan, outcomes: Sequence[AnchorboltError | Fails], slots: int = 2) -> None:
        self.slots = slots
        self.runs: list[tuple[Round, Sequence[CommitGroup], int]] = []
        self._plan = plan
        self._outcomes = list(outcomes)

    def commit_state(self, current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        self.runs.append((current, groups, threads))
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            return [TaskReport(group.task, "", current.fence.seq, failure=outcome(group)) for group in groups]
        rows = [row for group in groups for row in run_commit_task(self._plan, group, current, threads)]
        return reports_in(rows, current)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which nobody waits for. Threads of other tests sleep as ever."""
    made: list[float] = []
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=made.append, monotonic=time.monotonic))
    return made


@pytest.fixture
def provider() -> MemoryStateProvider:
    return MemoryStateProvider()


@pytest.fixture
def plan(provider: MemoryStateProvider) -> ExecutionPlan:
    checked = load_conf({"topology.max.batch.retries": 2})
    topology = one_bolt(StatefulBolt(), FeederSpout(["key"]), TASKS)
    return ExecutionPlan(topology, checked, checked.settings, provider, "run")


def decided(plan: ExecutionPlan, tasks: Sequence[TaskKey] | None = None) -> dict[str, Winner]:
    """Stage and seal an update of txid 0 for each task, and return the winners."""
    winners = {}
    for name, task in plan.wiring.namespaces.items():
        if tasks is None or task in tasks:
            storage = plan.provider.open(name)
            seal = storage.stage(StagedSlice(Fence(3, 1), 0, ATTEMPT, -1, 0, {b"key": name.encode()}, "codec"))
            storage.seal(Fence(3, 1), ATTEMPT, seal)
            winners[name] = Winner(ATTEMPT, -1, seal)
    return winners


def committed(plan: ExecutionPlan) -> Counter[int]:
    return Counter(plan.provider.open(name).head().committed for name in plan.wiring.namespaces)


def commit(plan: ExecutionPlan, runner: Runner, winners: Mapping[str, Winner], patience_s: float = 60) -> None:
    StateCommits(plan, runner, RetryPolicy(patience_s * 1000)).commit(FENCE, 0, winners)


def away(_: CommitGroup) -> AnchorboltError:
    return StateUnavailable("no connection")


def test_the_namespaces_are_divided_among_as_many_tasks_as_run_at_a_time(plan: ExecutionPlan) -> None:
    runner = Runner(plan, [], slots=2)
    winners = decided(plan)
    commit(plan, runner, winners)
    assert committed(plan) == {0: TASKS}
    [(current, groups, threads)] = runner.runs
    assert (current.txid, current.fence) == (0, FENCE)
    assert sorted(len(group.winners) for group in groups) == [2, 3]
    assert {name for group in groups for name in group.winners} == winners.keys()
    assert threads * len(groups) >= THREADS


def test_the_namespaces_with_the_most_slices_are_in_different_groups(plan: ExecutionPlan) -> None:
    large = list(plan.wiring.namespaces)[:2]
    winners = {name: Winner(ATTEMPT, -1, Seal(9 if name in large else 1, 0)) for name in plan.wiring.namespaces}
    runner = Runner(plan, [lambda _: None], slots=2)
    commit(plan, runner, winners)
    assert sorted(len(group.winners.keys() & set(large)) for group in runner.runs[0][1]) == [1, 1]


def test_a_single_namespace_is_one_task_however_many_could_run(plan: ExecutionPlan) -> None:
    runner = Runner(plan, [], slots=16)
    commit(plan, runner, decided(plan, [("bolt", 3)]))
    assert [group.task for group in runner.runs[0][1]] == [("bolt", 3)]


def test_while_the_store_is_away_the_tasks_run_again_with_the_same_fence(
    plan: ExecutionPlan, pauses: list[float]
) -> None:
    runner = Runner(plan, [away] * 5)
    commit(plan, runner, decided(plan))
    assert committed(plan) == {0: TASKS}
    assert [current.fence for current, _, _ in runner.runs] == [FENCE] * 6
    assert len(pauses) == 5


def test_a_store_that_stays_away_ends_the_run(plan: ExecutionPlan) -> None:
    with pytest.raises(StateUnavailable):
        commit(plan, Runner(plan, [away] * 5), decided(plan), patience_s=0)


@pytest.mark.parametrize("loss", [WorkerLost("a worker ended", txid=0), InfrastructureLost("an executor", txid=0)])
def test_workers_that_are_lost_again_and_again_cost_time_and_no_retries(
    plan: ExecutionPlan, pauses: list[float], loss: WaveFailed
) -> None:
    runner = Runner(plan, [loss] * 10)
    commit(plan, runner, decided(plan))
    assert committed(plan) == {0: TASKS}
    assert len(pauses) == 10


def test_any_other_failure_of_the_job_is_tried_again_as_often_as_a_batch(plan: ExecutionPlan) -> None:
    failed = WaveFailed("Spark could not", txid=0)
    commit(plan, Runner(plan, [failed] * 2), decided(plan))
    assert committed(plan) == {0: TASKS}
    with pytest.raises(WaveFailed):
        commit(plan, Runner(plan, [failed] * 3), {"namespace": Winner(ATTEMPT, -1, Seal(1, 0))})


def test_a_task_that_does_not_report_runs_again(plan: ExecutionPlan) -> None:
    runner = Runner(plan, [])
    run = runner.commit_state
    lost = [False, True]

    def commit_state(current: Round, groups: Sequence[CommitGroup], threads: int) -> Sequence[TaskReport]:
        reports = run(current, groups, threads)
        return reports[1:] if lost.pop() else reports

    runner.commit_state = commit_state  # type: ignore[method-assign]
    commit(plan, runner, decided(plan))
    assert len(runner.runs) == 2


def test_a_driver_that_was_overtaken_ends_at_once_although_the_store_is_away_for_other_tasks(
    plan: ExecutionPlan, pauses: list[float]
) -> None:
    winners = decided(plan)
    overtaken = next(iter(winners))
    plan.provider.open(overtaken).raise_fence(Fence(4, 0))

    def fails(group: CommitGroup) -> AnchorboltError:
        return Fenced("overtaken") if overtaken in group.winners else StateUnavailable("no connection")

    for outcomes in ([fails], []):
        with pytest.raises(Fenced):
            commit(plan, Runner(plan, outcomes), winners)
    assert pauses == []
    assert plan.provider.open(overtaken).head().committed == -1


def test_an_exception_of_the_engine_is_a_failure_of_the_wave(plan: ExecutionPlan) -> None:
    runner: Any = Runner(plan, [])
    runner.commit_state = lambda *_: 1 / 0
    with pytest.raises(WaveFailed) as failure:
        commit(plan, runner, decided(plan))
    assert failure.value.txid == 0


def test_a_custom_state_is_committed_by_the_driver_and_the_other_namespaces_by_tasks(plan: ExecutionPlan) -> None:
    commits: list[int] = []

    class Custom(State):
        def prepare_commit(self, txid: int) -> None: ...

        def commit(self, txid: int | None = None) -> None:
            assert txid is not None
            commits.append(txid)

        def rollback(self) -> None: ...

    custom = ("bolt", 2)
    in_tasks: list[set[str]] = []

    class Tasks:
        def commit(self, fence: Fence, txid: int, winners: Mapping[str, Winner]) -> None:
            in_tasks.append({*winners})

    def new_state(task: TaskKey) -> State | None:
        return Custom() if task == custom else None

    winners = decided(plan)
    opened = Namespaces(plan.provider, NO_RETRY, new_state, plan.wiring.namespaces, Tasks())
    with closing(opened) as namespaces:
        namespaces.open(winners)
        namespaces.commit(FENCE, 0, winners)
    assert commits == [0]
    assert in_tasks == [{name for name in winners if name != plan.wiring.namespace(custom)}]
    assert committed(plan) == {0: 1, -1: TASKS - 1}
