"""The coordinator and the emitters of a spout: which of their hooks are called, how often, and over restarts."""

import threading
import time
from typing import Any

import pytest

from anchorbolt.engine import RunStatus
from anchorbolt.errors import BoltError, SpoutError
from anchorbolt.testing import LocalCluster
from anchorbolt.transactional import CommitterTransactionalEmitter, CommitterTransactionalSpout, TransactionalEmitter
from tests.engine.jobs import finished
from tests.transactional.conftest import Run
from tests.transactional.jobs import (
    Passing,
    Values,
    attempts,
    batches,
    boom,
    first_times,
    note,
    notes,
    values_topology,
    wait_for,
)
from tests.transactional.spouts import Ranges, RangesCoordinator, RangesEmitter


def failing(hook: str, txid: int, times: int) -> Values:
    bolt = Values()
    bolt.raises = hook, txid, times, boom
    return bolt


def test_metadata_is_made_once_for_each_batch_from_that_of_the_batch_before(run: Run, conf: dict[str, Any]) -> None:
    handle = run(values_topology(Ranges(2, 6), failing("finish_batch", 2, 3)), wait=False, max_batch_retries=1)
    with pytest.raises(Exception, match="boom"):
        handle.await_termination(60)
    run(values_topology(Ranges(2, 6), failing("finish_batch", 2, 3)), max_spout_pending=3)
    assert notes(conf, "initialize") == ["1 None", "2 2", "3 4"]
    assert batches(conf) == {1: [0, 1], 2: [2, 3], 3: [4, 5]}
    emitted = [line for line in notes(conf, "emit") if line.startswith("2 ")]
    assert emitted == ["2 0 4"] * 4


def test_metadata_that_is_false_is_metadata(run: Run, conf: dict[str, Any]) -> None:
    run(values_topology(Ranges(2, 2, first=-2)))  # the first batch ends at 0
    assert notes(conf, "after") == ["None", "0", "2"]
    assert batches(conf) == {1: [-2, -1], 2: [0, 1]}


def test_all_tasks_emit_each_batch_and_are_told_which_have_committed(run: Run, conf: dict[str, Any]) -> None:
    run(values_topology(Ranges(4, 12), parallelism=3))
    assert sorted(notes(conf, "emit")) == [f"{txid} {task} {4 * txid}" for txid in (1, 2, 3) for task in range(3)]
    assert sorted(notes(conf, "cleanup")) == [f"{txid} {task}" for txid in (1, 2, 3) for task in range(3)]
    assert batches(conf) == {1: [0, 1, 2, 3], 2: [4, 5, 6, 7], 3: [8, 9, 10, 11]}


def test_the_coordinator_and_the_emitters_are_closed(run: Run, conf: dict[str, Any]) -> None:
    run(values_topology(Ranges(2, 12), failing("finish_batch", 2, 1), parallelism=2), max_spout_pending=3)
    assert notes(conf, "closed coordinator") == ["closed coordinator"]
    assert sorted(notes(conf, "closed emitter")) == sorted(notes(conf, "opened emitter"))


def test_every_bolt_that_was_prepared_is_cleaned_up(run: Run, conf: dict[str, Any]) -> None:
    spout = Ranges(2, 16)
    bolt = Passing()
    bolt.raises = "execute", 3, 1, boom
    run(values_topology(spout, bolt), max_spout_pending=4)
    called = [line.split()[2] for line in notes(conf, "call")]
    assert called.count("cleanup") == called.count("prepare")


class Committing(Ranges, CommitterTransactionalSpout):
    def __init__(self, *given: int, fails: int = 0) -> None:
        super().__init__(*given)
        self.fails = fails

    def emitter(self, conf: Any, context: Any) -> CommitterTransactionalEmitter:
        return CommittingEmitter(conf, context, self)


class CommittingEmitter(RangesEmitter, CommitterTransactionalEmitter):
    spout: Committing

    def commit(self, attempt: Any) -> None:
        note(self.conf, "commit", attempt.txid, self.task, attempt.attempt_id)
        if attempt.txid == 2 and first_times(self.conf, "commit", self.spout.fails):
            raise SystemExit(1)


@pytest.mark.parametrize("bolt", [Values, Passing])
def test_committing_emitters_commit_on_every_task_in_the_order_of_the_batches(
    run: Run, conf: dict[str, Any], bolt: Any
) -> None:
    handle = run(
        values_topology(Committing(4, 16), bolt(), parallelism=2),
        max_spout_pending=3,
        on_wave=lambda report: note(conf, "commit", report.txid, "done"),
    )
    noted = [line.split()[:2] for line in notes(conf, "commit")]
    for txid in (1, 2, 3, 4):
        one = [rest for number, rest in noted if int(number) == txid]
        assert sorted(one[:2]) == ["0", "1"]
        assert one[2:] == ["done"]
    assert [int(number) for number, _ in noted] == sorted(int(number) for number, _ in noted)
    assert len(handle.reports) == 4
    assert sorted(notes(conf, "closed emitter")) == sorted(notes(conf, "opened emitter"))


def test_a_commit_that_fails_is_called_again_for_another_attempt(run: Run, conf: dict[str, Any]) -> None:
    handle = run(values_topology(Committing(4, 8, fails=1)))
    assert [report.rounds for report in handle.reports] == [1, 2]
    assert [int(line.split()[1]) for line in notes(conf, "commit", 2)] == attempts(conf, 2)


def test_an_emitter_that_cannot_commit_is_refused(run: Run) -> None:
    class Wrong(Committing):
        def emitter(self, conf: Any, context: Any) -> Any:
            return RangesEmitter(conf, context, self)

    with pytest.raises(SpoutError) as raised:
        run(values_topology(Wrong(4, 8)), max_batch_retries=0)
    assert raised.value.component == "spout"


def test_a_coordinator_of_the_wrong_kind_is_refused(run: Run) -> None:
    class Wrong(Ranges):
        def coordinator(self, conf: Any, context: Any) -> Any:
            return object()

    with pytest.raises(SpoutError) as raised:
        run(values_topology(Wrong(4, 8)))
    assert raised.value.component == "spout"


class Waits(Ranges):
    def coordinator(self, conf: Any, context: Any) -> Any:
        return WaitsCoordinator(conf, self)


class WaitsCoordinator(RangesCoordinator):
    """Is ready for one batch after the other, when the test says so."""

    def is_ready(self) -> bool:
        return len(notes(self.conf, "ready")) > (self.last or 0) // self.spout.take


def test_a_batch_begins_once_its_coordinator_is_ready(conf: dict[str, Any]) -> None:
    handle = LocalCluster().submit(values_topology(Waits(2, 0)), conf, until_empty=False)
    for txid in (1, 2, 3):
        assert len(handle.reports) == txid - 1
        note(conf, "ready")
        wait_for(lambda txid=txid: len(handle.reports) == txid)  # type: ignore[misc]
    statuses = [handle.status]
    assert handle.stop(30)
    assert [*statuses, handle.status] == [RunStatus.RUNNING, RunStatus.STOPPED]
    assert notes(conf, "closed coordinator") == ["closed coordinator"]


def test_a_run_that_is_stopped_finishes_its_batch_and_gives_up_the_others(conf: dict[str, Any]) -> None:
    def stop(report: Any) -> None:
        if report.txid == 2:
            assert handle.stop() is False

    cluster = LocalCluster()
    started = time.monotonic()
    handle = cluster.submit(values_topology(Ranges(2, 20)), {**conf, "topology.max.spout.pending": 4}, on_wave=stop)
    assert handle.await_termination(60)
    assert handle.status is RunStatus.STOPPED
    assert sorted(batches(conf)) == [1, 2]
    assert time.monotonic() - started < 30
    assert sorted(notes(conf, "closed emitter")) == sorted(notes(conf, "opened emitter"))
    finished(values_topology(Ranges(2, 20)), conf, cluster=cluster)
    assert sorted(batches(conf)) == [*range(1, 11)]
    assert notes(conf, "initialize")[2:4] == ["3 4", "4 6"]
    assert len(notes(conf, "initialize")) == 10


class Closing(Ranges):
    def coordinator(self, conf: Any, context: Any) -> Any:
        return ClosingCoordinator(conf, self)

    def emitter(self, conf: Any, context: Any) -> TransactionalEmitter:
        return ClosingEmitter(conf, context, self)


class ClosingCoordinator(RangesCoordinator):
    def close(self) -> None:
        raise ValueError("the coordinator cannot close")


class ClosingEmitter(RangesEmitter):
    def close(self) -> None:
        raise SystemExit(1)


def test_errors_of_close_are_logged_and_end_no_run(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    assert run(values_topology(Closing(2, 4))).status is RunStatus.FINISHED
    assert "the coordinator cannot close" in caplog.text
    assert "closing the emitter" in caplog.text


RELEASED = threading.Event()


class Blocks(Values):
    """Waits in batch 2 for the test, after it has said so; and fails batch 1 then."""

    def execute(self, tup: Any) -> None:
        super().execute(tup)
        if self.attempt.txid == 2:
            note(self.conf, "waits")
            assert RELEASED.wait(30)

    def finish_batch(self) -> None:
        wait_for(lambda: bool(notes(self.conf, "waits")))
        threading.Timer(0.2, RELEASED.set).start()
        raise ValueError("boom")


def test_a_run_that_fails_waits_for_phases_that_it_gave_up_and_closes_what_they_opened(
    run: Run, conf: dict[str, Any]
) -> None:
    RELEASED.clear()
    handle = run(values_topology(Ranges(2, 8), Blocks()), wait=False, max_spout_pending=2, max_batch_retries=0)
    with pytest.raises(BoltError):
        handle.await_termination(60)
    assert RELEASED.is_set()
    assert sorted(notes(conf, "closed emitter")) == sorted(notes(conf, "opened emitter"))


class CountingEmitter(RangesEmitter):
    """Counts its batches, and raises in the second one the first time."""

    def __init__(self, conf: Any, context: Any, spout: Any) -> None:
        super().__init__(conf, context, spout)
        self.batches = context.register_counter("batches")

    def emit_batch(self, attempt: Any, metadata: Any, collector: Any) -> None:
        self.batches.inc()
        if attempt.txid == 2 and first_times(self.conf, "emit"):
            raise ValueError("only once")
        super().emit_batch(attempt, metadata, collector)


class CountingRanges(Ranges):
    def emitter(self, conf: Any, context: Any) -> TransactionalEmitter:
        return CountingEmitter(conf, context, self)


def test_the_metrics_of_an_emitter_count_committed_batches_only(run_on: Run) -> None:
    handle = run_on(values_topology(CountingRanges(2, 6), parallelism=2))
    counted = {metric.task: value for metric, value in handle.observe().figures.registered.numbers.items()}
    assert counted == {("spout", 0): 3, ("spout", 1): 3}
