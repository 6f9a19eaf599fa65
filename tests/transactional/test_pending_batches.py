"""What is stored of the batches in flight: never more than may be pending, and exact when another number may be."""

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.errors import BoltError, FaultInjected
from anchorbolt.faults.points import PointReached
from anchorbolt.testing import FaultPoint
from anchorbolt.transactional import MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout
from anchorbolt.transactional.batches.metadata import BatchMetadata
from tests.engine.conftest import Watch
from tests.transactional.conftest import Run
from tests.transactional.jobs import (
    Values,
    batches,
    boom,
    decision_log,
    first_times,
    note,
    notes,
    rows,
    values_topology,
    wait_for,
)
from tests.transactional.spouts import Pages, Ranges, set_numbers


def stored(conf: dict[str, Any]) -> set[int]:
    """Return the txids whose metadata is stored beside the record."""
    with decision_log(conf, "values") as log:
        return {BatchMetadata.decode(data).txid for data in log.load_batches().values()}


def slots(conf: dict[str, Any]) -> int:
    with decision_log(conf, "values") as log:
        return len(log.load_batches())


SPOUTS = [
    MemoryTransactionalSpout({0: rows(range(40))}, ["number"], 2),
    OpaqueMemoryTransactionalSpout({0: rows(range(40))}, ["number"], 2),
    Ranges(2, 40),
]


@pytest.mark.parametrize("spout", SPOUTS, ids=lambda spout: type(spout).__name__)
def test_what_is_stored_of_batches_does_not_grow(run: Run, conf: dict[str, Any], spout: Any) -> None:
    seen: list[int] = []
    bolt = Values()
    bolt.raises = "finish_batch", 6, 2, boom
    run(values_topology(spout, bolt), max_spout_pending=4, on_wave=lambda report: seen.append(slots(conf)))
    assert len(seen) == 20
    assert max(seen) <= 4
    assert batches(conf) == {txid: [2 * txid - 2, 2 * txid - 1] for txid in range(1, 21)}


class FailsBehind(Values):
    """Fails batch 1 for good once batch `behind` has reached it; not if that is 0."""

    def __init__(self, behind: int) -> None:
        self.behind = behind

    def execute(self, tup: Any) -> None:
        if self.behind and self.attempt.txid == 1:
            wait_for(lambda: bool(notes(self.conf, "call", self.behind)))
            raise ValueError("boom")
        super().execute(tup)


@pytest.mark.parametrize(("first", "second", "third"), [(3, 5, 1), (3, 4, 2), (2, 5, 3), (5, 5, 1), (4, 2, 5)])
def test_batches_stay_the_same_when_another_number_may_be_pending(
    run: Run, conf: dict[str, Any], first: int, second: int, third: int
) -> None:
    expected: list[tuple[int, int]] = []
    reached = 0
    for pending in (first, second):
        # Each run finds less than a whole batch at its end; then the source grows.
        new = max(0, pending - reached)
        if new:
            start = expected[-1][1] if expected else 0
            ends = [*(start + 10 * number for number in range(1, new)), start + 10 * (new - 1) + 5]
            expected += list(zip([start, *ends], ends, strict=False))
            set_numbers(conf, ends[-1])
        reached = max(reached, pending)
        topology = values_topology(Pages(10), FailsBehind(pending))
        handle = run(topology, wait=False, max_spout_pending=pending, max_batch_retries=0)
        with pytest.raises(BoltError):
            handle.await_termination(60)
        assert stored(conf) == set(range(1, reached + 1))
        assert slots(conf) == reached
    end = expected[-1][1]
    set_numbers(conf, end + 7)
    run(values_topology(Pages(10), FailsBehind(0)), max_spout_pending=third)
    expected.append((end, end + 7))
    assert batches(conf) == {txid: [*range(*each)] for txid, each in enumerate(expected, start=1)}
    assert len(notes(conf, "new")) == len(expected)
    assert slots(conf) <= max(reached, third)


def fail_to_store(monkeypatch: pytest.MonkeyPatch, txid: int, times: int) -> None:
    """Fail to store the metadata of a batch, so many times."""
    write, left = DecisionLog.write_batch, [times]

    def failing(log: DecisionLog, slot: int, metadata: bytes) -> None:
        if BatchMetadata.decode(metadata).txid == txid and left[0]:
            left[0] -= 1
            raise FaultInjected("the store is away")
        write(log, slot, metadata)

    monkeypatch.setattr(DecisionLog, "write_batch", failing)


class LooksIntoTheStore(Values):
    """Notes whether the metadata of a batch is stored when it finishes the batch."""

    def finish_batch(self) -> None:
        note(self.conf, "looked", self.attempt.txid in stored(self.conf))
        super().finish_batch()


@pytest.mark.parametrize("spout", [Pages(10), Ranges(10, 30)], ids=lambda spout: type(spout).__name__)
def test_no_bolt_finishes_a_batch_whose_metadata_was_not_stored(
    run: Run, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch, spout: Any
) -> None:
    set_numbers(conf, 30)
    fail_to_store(monkeypatch, 2, 2)
    run(values_topology(spout, LooksIntoTheStore()), max_spout_pending=2)
    assert notes(conf, "looked") == ["True"] * 3
    assert batches(conf) == {1: [*range(10)], 2: [*range(10, 20)], 3: [*range(20, 30)]}


STORED_LATE = [FaultPoint.BATCH_BEGUN, FaultPoint.METADATA_STORED, FaultPoint.BATCH_PROCESSED, FaultPoint.ROUND_ENDED]


@pytest.mark.parametrize("point", STORED_LATE)
@pytest.mark.parametrize("spout", [Pages(10), Ranges(10, 30)], ids=lambda spout: type(spout).__name__)
def test_a_fault_of_the_driver_changes_no_batch(
    run: Run, conf: dict[str, Any], watch: Watch, point: FaultPoint, spout: Any
) -> None:
    set_numbers(conf, 15)

    def strike(place: PointReached) -> None:
        if place.point is point and place.txid == 2 and first_times(conf, "fault", 2):
            set_numbers(conf, 25)
            raise FaultInjected("struck")

    watch(strike)
    bolt = Values()
    bolt.raises = "finish_batch", 2, 1, boom
    run(values_topology(spout, bolt), max_spout_pending=2)
    if isinstance(spout, Ranges):
        assert notes(conf, "initialize") == ["1 None", "2 10", "3 20"]
        assert batches(conf) == {1: [*range(10)], 2: [*range(10, 20)], 3: [*range(20, 30)]}
    else:
        made = [line for line in notes(conf, "new") if line.startswith("2 ")]
        ends = {int(line.split()[2]) for line in made}
        assert ends <= {15, 20}
        # As it was stored first.
        first = 20 if point is FaultPoint.BATCH_BEGUN else 15
        assert batches(conf)[2] == [*range(10, first)]


def files_of(conf: dict[str, Any]) -> list[Path]:
    folder = Path(conf["topology.checkpoint.location"], "anchorbolt", "hand-offs")
    return [file for file in folder.rglob("*") if file.is_file()]


def test_hand_offs_of_batches_that_were_given_up_are_removed(run: Run, conf: dict[str, Any]) -> None:
    bolt = Values()
    bolt.raises = "finish_batch", 3, 3, boom
    kept: list[int] = []
    run(
        values_topology(MemoryTransactionalSpout({0: rows(range(12))}, ["number"], 2), bolt),
        max_spout_pending=3,
        on_wave=lambda report: kept.append(len(files_of(conf))),
    )
    assert max(kept) <= 3
    assert files_of(conf) == []
