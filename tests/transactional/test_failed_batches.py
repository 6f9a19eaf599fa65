"""A batch that fails, in either phase and on any component, is tried again, and then ends the run with its cause."""

from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.bolts import FailedException
from anchorbolt.engine import RunHandle, RunStatus
from anchorbolt.errors import AnchorboltError, BoltError, SpoutError
from anchorbolt.topology import Topology
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.transactional.conftest import Run
from tests.transactional.jobs import (
    Passing,
    PassingBasic,
    Values,
    attempts,
    batches,
    boom,
    calls,
    first_times,
    rows,
    values_topology,
)
from tests.transactional.spouts import Pages, PagesEmitter, Ranges, RangesCoordinator, set_numbers


def exits() -> BaseException:
    return SystemExit(3)


def fails() -> BaseException:
    return FailedException("not now")


def chain(component: str, hook: str, times: int, make: Callable[[], BaseException]) -> Topology:
    """spout → basic → batch → values (a committer); one of them fails batch 2."""
    basic, batch, values = PassingBasic(), Passing(), Values()
    if component == "basic":
        basic.raises = 2, times, make
    elif component == "batch":
        batch.raises = hook, 2, times, make
    else:
        values.raises = hook, 2, times, make
    spout = MemoryTransactionalSpout({0: rows(range(4))}, ["number"], 1)
    builder = TransactionalTopologyBuilder("chain", "spout", spout)
    builder.set_bolt("basic", basic).global_grouping("spout")
    builder.set_bolt("batch", batch).global_grouping("basic")
    builder.set_bolt("values", values).global_grouping("batch")
    return builder.build_topology()


PLACES = [
    ("basic", "execute"),
    ("batch", "prepare"),
    ("batch", "execute"),
    ("batch", "finish_batch"),
    ("values", "prepare"),
    ("values", "execute"),
    ("values", "finish_batch"),
]


@pytest.mark.parametrize("make", [boom, fails, exits])
@pytest.mark.parametrize(("component", "hook"), PLACES)
def test_a_batch_that_fails_is_tried_again(
    run: Run, conf: dict[str, Any], component: str, hook: str, make: Callable[[], BaseException]
) -> None:
    handle = run(chain(component, hook, 2, make), max_spout_pending=2)
    assert handle.status is RunStatus.FINISHED
    assert [report.rounds for report in handle.reports] == [1, 3, 1, 1]
    assert len(attempts(conf, 2)) == 3
    assert [calls(conf, txid).count("values finish_batch") for txid in (1, 3, 4)] == [1, 1, 1]


def failure_of(handle: RunHandle) -> AnchorboltError:
    """Return the error that ended a run."""
    with pytest.raises(AnchorboltError) as raised:
        handle.await_termination(60)
    assert handle.status is RunStatus.FAILED
    assert handle.failure is raised.value
    return raised.value


@pytest.mark.parametrize("make", [boom, fails])
@pytest.mark.parametrize(("component", "hook"), PLACES)
def test_after_the_last_try_the_run_ends_with_the_cause_and_another_continues(
    run: Run, conf: dict[str, Any], component: str, hook: str, make: Callable[[], BaseException]
) -> None:
    topology = chain(component, hook, 3, make)
    handle = run(topology, wait=False, max_spout_pending=2, max_batch_retries=2)
    error = failure_of(handle)
    assert isinstance(error, BoltError)
    assert error.component == component
    assert error.user_traceback.endswith(("ValueError: boom", "FailedException: not now"))
    assert "topology.dead.letter" in error.message
    assert "3 times" in error.message
    assert [report.txid for report in handle.reports] == [1]
    assert len(attempts(conf, 2)) == 3
    again = run(topology)
    assert again.recovery.txid == 1
    assert [(report.txid, report.rounds) for report in again.reports] == [(2, 1), (3, 1), (4, 1)]


class FailingEmitter(PagesEmitter):
    def emit(self, attempt: Any, collector: Any, first: int, end: int) -> None:
        super().emit(attempt, collector, first, end)
        if attempt.txid == 2 and first_times(self.conf, "emitter", 2):
            raise ValueError("boom")


class ExitingEmitter(PagesEmitter):
    def emit(self, attempt: Any, collector: Any, first: int, end: int) -> None:
        if attempt.txid == 2 and first_times(self.conf, "emitter", 2):
            raise SystemExit(4)
        super().emit(attempt, collector, first, end)


class FailingPartition(PagesEmitter):
    """Fails in its second partition, after the first one has said what it emitted."""

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> Any:
        if partition == 1:
            raise ValueError("boom")
        return super().emit_partition_batch_new(attempt, collector, partition, last_metadata)


def test_the_error_of_one_of_several_emitters_is_that_of_the_batch(run: Run, conf: dict[str, Any]) -> None:
    set_numbers(conf, 3)
    topology = values_topology(Pages(10, 2, FailingPartition), parallelism=2)
    error = failure_of(run(topology, wait=False, max_batch_retries=0))
    assert isinstance(error, SpoutError)
    assert (error.component, error.task_index) == ("spout", 1)


@pytest.mark.parametrize("emitter", [FailingEmitter, ExitingEmitter])
def test_a_failing_emitter_fails_its_batch(run: Run, conf: dict[str, Any], emitter: type[PagesEmitter]) -> None:
    set_numbers(conf, 25)
    topology = values_topology(Pages(10, emitter=emitter))
    error = failure_of(run(topology, wait=False, max_batch_retries=0))
    assert isinstance(error, SpoutError)
    assert (error.component, error.task_index) == ("spout", 0)
    assert error.user_traceback.endswith(("ValueError: boom", "SystemExit: 4"))
    assert sorted(batches(conf)) == [1]
    assert [report.rounds for report in run(topology, max_spout_pending=2).reports] == [2, 1]
    assert batches(conf) == {1: [*range(10)], 2: [*range(10, 20)], 3: [*range(20, 25)]}


class Fails(Values):
    def execute(self, tup: Any) -> None:
        if first_times(self.conf, "failed"):
            self.collector.fail(tup)


def test_a_tuple_that_is_failed_fails_its_batch(run: Run, conf: dict[str, Any]) -> None:
    spout = MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 1)
    assert [report.rounds for report in run(values_topology(spout, Fails())).reports] == [2, 1, 1]


class WrongWidth(Passing):
    def finish_batch(self) -> None:
        self.collector.emit((self.attempt, 1, 2))


def test_a_tuple_of_another_width_fails_its_batch_at_the_line_that_emits_it(run: Run, conf: dict[str, Any]) -> None:
    spout = MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 1)
    builder = TransactionalTopologyBuilder("wrong", "spout", spout)
    builder.set_bolt("wrong", WrongWidth()).global_grouping("spout")
    builder.set_bolt("values", Values()).global_grouping("wrong")
    error = failure_of(run(builder.build_topology(), wait=False))
    assert isinstance(error, BoltError)
    assert error.component == "wrong"
    assert "attempt" in error.message
    assert "self.collector.emit((self.attempt, 1, 2))" in error.user_traceback


class Unsteady(Ranges):
    """Its coordinator raises when batch 3 is made, some times."""

    def __init__(self, hook: str, times: int) -> None:
        super().__init__(2, 8)
        self.hook, self.times = hook, times

    def coordinator(self, conf: Any, context: Any) -> Any:
        return UnsteadyCoordinator(conf, self)


class UnsteadyCoordinator(RangesCoordinator):
    spout: Unsteady

    def is_ready(self) -> bool:
        self.fail("is_ready", self.last == 4)
        return super().is_ready()

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        self.fail("initialize_transaction", txid == 3)
        return super().initialize_transaction(txid, previous_metadata)

    def fail(self, hook: str, now: bool) -> None:
        if now and self.spout.hook == hook and first_times(self.conf, hook, self.spout.times):
            raise ValueError("boom")


@pytest.mark.parametrize("hook", ["is_ready", "initialize_transaction"])
def test_a_coordinator_that_fails_is_called_again_and_no_earlier_batch_fails(
    run: Run, conf: dict[str, Any], hook: str
) -> None:
    handle = run(values_topology(Unsteady(hook, 2)), max_spout_pending=3)
    assert [report.txid for report in handle.reports] == [1, 2, 3, 4]
    assert [len(attempts(conf, txid)) for txid in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert batches(conf) == {1: [0, 1], 2: [2, 3], 3: [4, 5], 4: [6, 7]}


@pytest.mark.parametrize("hook", ["is_ready", "initialize_transaction"])
def test_a_coordinator_that_keeps_failing_ends_the_run(run: Run, conf: dict[str, Any], hook: str) -> None:
    handle = run(values_topology(Unsteady(hook, 99)), wait=False, max_spout_pending=3, max_batch_retries=2)
    error = failure_of(handle)
    assert isinstance(error, SpoutError)
    assert error.component == "spout"
    assert sorted(batches(conf)) == [1, 2]


class Unsendable(Passing):
    """Emits a value that cannot be sent, of one of its tuples."""

    def execute(self, tup: Any) -> None:
        self.collector.emit((self.attempt, "\ud800" if tup["number"] == 2 else tup["number"]))


class UnsendableEmitter(PagesEmitter):
    def emit(self, attempt: Any, collector: Any, first: int, end: int) -> None:
        for number in range(first, end):
            collector.emit((attempt, [object()] if number == 2 else number))


@pytest.mark.parametrize("committer", [False, True])
def test_a_value_that_cannot_be_sent_fails_its_batch_and_is_named_with_its_tuple(run: Run, committer: bool) -> None:
    spout = MemoryTransactionalSpout({0: rows(range(4))}, ["number"], 4)
    builder = TransactionalTopologyBuilder("unsendable", "spout", spout)
    add = builder.set_committer_bolt if committer else builder.set_bolt
    add("pass", Unsendable()).global_grouping("spout")
    builder.set_bolt("values", Values()).global_grouping("pass")
    error = failure_of(run(builder.build_topology(), wait=False))
    assert isinstance(error, BoltError)
    assert (error.component, "number=2" in str(error.tuple_text)) == ("pass", True)
    assert "self.collector.emit(" in error.user_traceback


def test_a_value_that_an_emitter_cannot_send_is_named_with_its_line(run: Run, conf: dict[str, Any]) -> None:
    set_numbers(conf, 4)
    error = failure_of(run(values_topology(Pages(4, emitter=UnsendableEmitter)), wait=False))
    assert isinstance(error, SpoutError)
    assert "collector.emit((attempt, [object()]" in error.user_traceback
    assert "at [0]" in error.message
