"""What a batch holds that is tried again: other tuples if the spout is opaque, the same ones if it is not."""

from typing import Any

from anchorbolt.errors import BoltError
from anchorbolt.transactional import MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout
from tests.transactional.conftest import Run
from tests.transactional.jobs import Values, attempts, batches, boom, notes, rows, values_topology
from tests.transactional.spouts import Pages, numbers_of, set_numbers


def failing(hook: str, txid: int, times: int = 1, make: Any = boom) -> Values:
    bolt = Values()
    bolt.raises = hook, txid, times, make
    return bolt


class TakesFewer(Values):
    """Fails the first batch once, and has its spout take less then."""

    def __init__(self, spout: OpaqueMemoryTransactionalSpout) -> None:
        self.spout = spout

    def finish_batch(self) -> None:
        if self.spout.take == 50:
            self.spout.take = 40
            raise ValueError("try it with fewer")
        super().finish_batch()


def test_the_second_try_of_an_opaque_batch_may_hold_fewer_tuples_and_the_next_begins_behind_them(
    run: Run, conf: dict[str, Any]
) -> None:
    spout = OpaqueMemoryTransactionalSpout({0: rows(range(1, 101))}, ["number"], 50)
    handle = run(values_topology(spout, TakesFewer(spout)), max_spout_pending=3)
    assert [report.rounds for report in handle.reports] == [2, 1, 1]
    assert batches(conf) == {1: [*range(1, 41)], 2: [*range(41, 81)], 3: [*range(81, 101)]}


def test_a_partition_may_disappear_for_some_batches(run: Run, conf: dict[str, Any]) -> None:
    spout = OpaqueMemoryTransactionalSpout({0: rows(range(6)), 1: rows(range(100, 105))}, ["number"], 1)

    def change(report: Any) -> None:
        if report.txid == 2:
            spout.disabled_partitions.add(1)
        elif report.txid == 4:
            spout.disabled_partitions.discard(1)

    run(values_topology(spout, failing("finish_batch", 3), parallelism=2), on_wave=change)
    assert batches(conf) == {1: [0, 100], 2: [1, 101], 3: [2], 4: [3], 5: [4, 102], 6: [5, 103], 7: [104]}


def test_an_opaque_run_continues_behind_its_last_commit(run: Run, conf: dict[str, Any]) -> None:
    spout = OpaqueMemoryTransactionalSpout({0: rows(range(6)), 1: rows(range(100, 102))}, ["number"], 2)

    def stop(report: Any) -> None:
        if report.txid == 2:
            handle.stop()

    handle = run(values_topology(spout), on_wave=stop, wait=False)
    handle.await_termination(60)
    assert sorted(batches(conf)) == [1, 2]
    run(values_topology(spout), max_spout_pending=2)
    assert batches(conf) == {1: [0, 1, 100, 101], 2: [2, 3], 3: [4, 5]}


class Grows(Values):
    """Fails a batch once, after the source has grown."""

    def finish_batch(self) -> None:
        if self.attempt.txid == 2 and numbers_of(self.conf) == 15:
            set_numbers(self.conf, 25)
            raise ValueError("the source has grown")
        super().finish_batch()


def test_a_batch_of_an_idempotent_spout_stays_the_same_while_the_source_grows(run: Run, conf: dict[str, Any]) -> None:
    set_numbers(conf, 15)
    run(values_topology(Pages(10), Grows()))
    assert batches(conf) == {1: [*range(10)], 2: [*range(10, 15)], 3: [*range(15, 25)]}
    assert notes(conf, "new") == ["1 0 10", "2 10 15", "3 15 25"]
    assert len(attempts(conf, 2)) == 2


def test_a_batch_stays_the_same_over_a_restart(run: Run, conf: dict[str, Any]) -> None:
    set_numbers(conf, 15)
    handle = run(values_topology(Pages(10), failing("finish_batch", 2, 9)), wait=False, max_batch_retries=0)
    assert raised(handle).component == "values"
    set_numbers(conf, 25)
    run(values_topology(Pages(10)))
    assert batches(conf) == {1: [*range(10)], 2: [*range(10, 15)], 3: [*range(15, 25)]}
    assert [line.split()[0] for line in notes(conf, "new")] == ["1", "2", "3"]


def raised(handle: Any) -> BoltError:
    try:
        handle.await_termination(60)
    except BoltError as error:
        return error
    raise AssertionError("the run should have failed")


def test_all_batches_behind_a_failed_one_are_emitted_again(run: Run, conf: dict[str, Any]) -> None:
    spout = MemoryTransactionalSpout({0: rows(range(60))}, ["number"], 10)
    handle = run(values_topology(spout, failing("finish_batch", 2)), max_spout_pending=4)
    assert batches(conf) == {txid: [*range(10 * txid - 10, 10 * txid)] for txid in range(1, 7)}
    assert [report.rounds for report in handle.reports] == [1, 2, 1, 1, 1, 1]
    tries = {txid: len(attempts(conf, txid)) for txid in range(1, 7)}
    assert (tries[1], tries[2], tries[6]) == (1, 2, 1)
    for txid in (3, 4, 5):  # a try that was given up may not have reached the bolt
        assert tries[txid] <= 2
    used = [attempt for txid in range(1, 7) for attempt in attempts(conf, txid)]
    assert len(used) == len(set(used))
