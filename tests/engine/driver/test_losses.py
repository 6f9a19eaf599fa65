"""What Spark or the network lost costs time and none of the batch's tries; but it cannot go on for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from itertools import repeat
from typing import Any

import pytest

from anchorbolt.checkpoint.losses import Losses
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.engine.local import runner as local_runner
from anchorbolt.errors import AnchorboltError, InfrastructureLost, WaveFailed, WorkerLost
from anchorbolt.streams import Tuple
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.conftest import FakeTime
from tests.engine.jobs import NO_RETRIES, StatefulBolt, feeder, one_bolt, word_count
from tests.transactional.jobs import PassingBasic, rows

LOST = InfrastructureLost("an executor was lost", txid=0)
SUSPECT = InfrastructureLost("an executor was lost", txid=0, while_running=True)
DIED = WorkerLost("a worker has died", txid=0)
FAILED = WaveFailed("a task is missing", txid=0)

pytestmark = pytest.mark.usefixtures("loss_clock")

Script = Callable[..., list[Round]]
"""Takes what each round raises, None for a round that succeeds; the last one goes on. Returns the rounds that ran."""


class ExecutorGone(BaseException):
    """Ends the process that runs a tuple."""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    run_levels = local_runner.run_levels

    def install(*errors: AnchorboltError | None) -> list[Round]:
        following: Iterator[AnchorboltError | None] = iter([*errors[:-1]])
        rounds: list[Round] = []
        monkeypatch.setattr(local_runner, "run_levels", scripted(run_levels, following, errors[-1], rounds))
        return rounds

    return install


def scripted(
    run_levels: Callable[..., Any],
    following: Iterator[AnchorboltError | None],
    last: AnchorboltError | None,
    rounds: list[Round],
) -> Callable[..., Any]:
    def run(plan: Any, inputs: Any, current: Round, *more: Any) -> Any:
        rounds.append(current)
        error = next(following, last)
        if error is not None:
            raise copy(error)
        try:
            return run_levels(plan, inputs, current, *more)
        except ExecutorGone:
            raise SUSPECT from None

    return run


def ended(topology: Topology, conf: dict[str, Any]) -> tuple[RunHandle, BaseException | None]:
    handle = LocalCluster().submit(topology, conf)
    try:
        assert handle.await_termination(60)
    except AnchorboltError as error:
        return handle, error
    return handle, None


def words(*batches: str) -> Topology:
    return word_count(feeder(*batches), parallelism=1)


def test_ten_losses_in_one_wave_use_up_no_try_and_are_reported(script: Script) -> None:
    script(*repeat(LOST, 10), None)
    handle, failure = ended(words("a", "a b"), NO_RETRIES)
    assert failure is None
    assert handle.state("count") == {"a": 2, "b": 1}
    assert [(report.rounds, report.losses) for report in handle.reports] == [(11, 10), (1, 0)]


def test_losses_and_failures_of_the_batch_are_counted_apart(script: Script) -> None:
    conf = {"topology.max.batch.retries": 2}
    script(LOST, DIED, LOST, LOST, FAILED, LOST, None)
    handle, failure = ended(words("a"), conf)
    assert failure is None
    assert [(report.rounds, report.losses) for report in handle.reports] == [(7, 4)]
    rounds = script(LOST, DIED, LOST, LOST, FAILED, LOST, DIED)
    handle, failure = ended(words("a"), conf)
    assert isinstance(failure, WorkerLost)
    assert len(rounds) == 7


def test_losses_without_end_end_the_run_after_the_time_and_the_tries_of_a_batch(
    script: Script, loss_clock: FakeTime
) -> None:
    rounds, began = script(LOST), loss_clock.now
    _, failure = ended(words("a"), {"topology.max.batch.retries": 3, "topology.message.timeout.secs": 60})
    assert isinstance(failure, InfrastructureLost)
    assert 60 <= loss_clock.now - began < 64
    suspecting = [current.suspects_tuples for current in rounds]
    assert suspecting == sorted(suspecting)
    assert suspecting.count(True) == 4


def test_slow_rounds_are_tried_as_often_after_losses_as_after_failures(script: Script, loss_clock: FakeTime) -> None:
    """A single round may take longer than the patience lasts."""
    rounds, losses = script(LOST), Losses(30, 3)
    assert [losses.note(now) > 0 and losses.is_used_up for now in (0, 100, 200, 300)] == [False, False, False, True]
    ended(words("a"), {"topology.max.batch.retries": 3, "topology.message.timeout.secs": 2})
    assert [current.suspects_tuples for current in rounds].count(False) >= 4


def test_each_wave_has_its_own_patience(script: Script, loss_clock: FakeTime) -> None:
    script(*[LOST, LOST, LOST, LOST, LOST, LOST, None] * 4)  # 5.1 s each
    _, failure = ended(words(*"abcd"), NO_RETRIES | {"topology.message.timeout.secs": 7})
    assert failure is None
    assert loss_clock.now > 1000 + 2 * 7


def test_pauses_grow_to_two_seconds() -> None:
    losses = Losses(30, 3)
    pauses = [losses.note(float(number)) for number in range(8)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0])


def test_only_executors_that_a_tuple_may_have_ended_are_held_against_the_wave_and_only_in_the_end(
    script: Script,
) -> None:
    conf = NO_RETRIES | {"topology.message.timeout.secs": 5}
    script(SUSPECT)
    assert type(ended(words("a"), conf)[1]) is WorkerLost
    script(*repeat(SUSPECT, 7), LOST)
    assert type(ended(words("a"), conf)[1]) is InfrastructureLost


def test_no_tuple_is_searched_for_because_executors_were_lost(script: Script) -> None:
    rounds = script(*repeat(SUSPECT, 10), None)
    handle, failure = ended(words("a"), {"topology.dead.letter": lambda letters, txid: None})
    assert failure is None
    assert not any(current.probe or current.isolates for current in rounds)
    assert handle.reports[0].losses == 10


def test_a_loss_amid_a_search_says_nothing_about_the_half_that_runs(script: Script) -> None:
    rounds = script(DIED, DIED, LOST, LOST, None)
    _, failure = ended(words("a"), {"topology.dead.letter": lambda letters, txid: None})
    assert failure is None
    probes = [current.probe for current in rounds if current.probe is not None]
    assert len(probes) >= 3
    assert probes[0] == probes[1] == probes[2]


class TakesAllMemory(StatefulBolt):
    def execute(self, tup: Tuple) -> None:
        if tup[0] == 7:
            raise ExecutorGone
        super().execute(tup)


def test_a_tuple_that_takes_its_executor_along_is_found_in_the_end(script: Script) -> None:
    """Of a container that was killed because a tuple took all its memory, Spark only says that an executor is gone."""
    script(None)
    letters: list[Any] = []
    conf = {"topology.dead.letter": lambda new, txid: letters.extend(new), "topology.message.timeout.secs": 5}
    spout = FeederSpout(["number"], [[(number,) for number in range(20)]])
    handle, failure = ended(one_bolt(TakesAllMemory(), spout), conf)
    assert failure is None
    assert [letter.values for letter in letters] == [(7,)]
    assert len(handle.state("bolt")) == 19


def batch_topology() -> Topology:
    spout = MemoryTransactionalSpout({0: rows(range(2))}, ["number"], 1)
    builder = TransactionalTopologyBuilder("chain", "spout", spout)
    builder.set_bolt("basic", PassingBasic()).global_grouping("spout")
    return builder.build_topology()


@pytest.mark.parametrize("more", [{}, {"topology.dead.letter": lambda letters, txid: None}])
def test_losses_use_up_no_try_of_a_transactional_batch_and_leave_none_out(
    script: Script, tmp_path: Any, more: dict[str, Any]
) -> None:
    script(*repeat(SUSPECT, 10), None)
    handle, failure = ended(batch_topology(), {"notes": str(tmp_path)} | NO_RETRIES | more)
    assert failure is None
    assert [(report.rounds, report.losses) for report in handle.reports][:1] == [(11, 10)]
    assert not any(report.dead_letters for report in handle.reports)


def test_a_batch_whose_losses_never_end_fails_and_is_left_out_only_if_a_tuple_may_be_the_cause(
    script: Script, tmp_path: Any
) -> None:
    conf = {"notes": str(tmp_path), "topology.message.timeout.secs": 5, "topology.max.batch.retries": 1}
    script(SUSPECT)
    assert type(ended(batch_topology(), conf)[1]) is WorkerLost
    script(LOST)
    conf["topology.dead.letter"] = lambda letters, txid: None
    assert type(ended(batch_topology(), conf)[1]) is InfrastructureLost
    script(*repeat(SUSPECT, 9), None)  # the patience, and both tries
    handle, failure = ended(batch_topology(), conf)
    assert failure is None
    assert [report.dead_letters for report in handle.reports][:1] == [{"spout": 1}]


class Hooked(StatefulBolt):
    def pre_commit(self, txid: int) -> None:
        """Has the tasks called in the commit phase."""


def test_hooks_are_sent_again_after_losses_as_often_as_a_wave_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left, errors, send = [10], [LOST], local_runner.LocalRunner.send

    def fail(self: Any, *arguments: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise copy(errors[0])
        send(self, *arguments)

    monkeypatch.setattr(local_runner.LocalRunner, "send", fail)
    assert ended(one_bolt(Hooked(), FeederSpout(["word"], [[("a",)]])), NO_RETRIES)[1] is None
    left[0], errors[0] = 1, DIED
    assert isinstance(ended(one_bolt(Hooked(), FeederSpout(["word"], [[("a",)]])), NO_RETRIES)[1], WorkerLost)
