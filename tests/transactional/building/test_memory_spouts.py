"""The spouts in memory, driven by hand as an engine drives them."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import TopologyError
from anchorbolt.streams import OutputFieldsDeclarer, TopologyContext
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import rows_of
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.transactional import (
    BatchOutputCollector,
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    TransactionAttempt,
)

CONTEXT = TopologyContext("t", "spout", 0, 0)
NUMBERS = {0: [(number,) for number in range(1, 101)]}

Metadata = dict[int, Any]
Batch = list[Any]


class Run:
    """Tries batches of a spout, without an engine. `metadata` is that of the last batch that committed."""

    def __init__(self, spout: MemoryTransactionalSpout | OpaqueMemoryTransactionalSpout) -> None:
        self.coordinator = spout.coordinator({}, CONTEXT)
        self.emitter: Any = cloudpickle.loads(cloudpickle.dumps(spout)).emitter({}, CONTEXT)
        self.attempt = TransactionAttempt(1, 0)

    def is_ready(self, last: Metadata | None) -> bool:
        self.coordinator.after(last)
        return self.coordinator.is_ready()

    def collected(self, emit: Callable[[TransactionAttempt, BatchOutputCollector], Any]) -> tuple[Any, Batch]:
        rows: list[tuple[Any, ...]] = []

        def flush(stream: str, sent: Buffer) -> int:
            rows.extend(rows_of(sent.size, sent.columns))
            return 512

        self.attempt = TransactionAttempt(self.attempt.txid, self.attempt.attempt_id + 1)
        collector = BatchOutputCollector("spout", {"default": StreamDeclaration(("tx", "value"))}, flush)
        collector.attempt = self.attempt
        metadata = emit(self.attempt, collector)
        collector.flush()
        assert all(row[0] == self.attempt for row in rows)
        return metadata, [row[1] for row in rows]

    def new(self, last: Metadata | None) -> tuple[Metadata, Batch]:
        """Emit a new batch of all partitions; return its metadata and its values."""
        made, emitted = dict(last or {}), []
        for partition in range(self.coordinator.number_of_partitions()):
            metadata, values = self.collected(
                lambda attempt, collector, partition=partition: self.emitter.emit_partition_batch_new(  # type: ignore[misc]
                    attempt, collector, partition, made.get(partition)
                )
            )
            emitted += values
            assert (metadata != made.get(partition)) == bool(values)
            if metadata is not None:
                made[partition] = metadata
        return made, emitted

    def again(self, last: Metadata | None, metadata: Metadata) -> Batch:
        """Emit a batch again, as its metadata says."""
        emitted = []
        for partition, each in metadata.items():
            if each != (last or {}).get(partition):
                emitted += self.collected(
                    lambda attempt, collector, partition=partition, each=each: self.emitter.emit_partition_batch(  # type: ignore[misc]
                        attempt, collector, partition, each
                    )
                )[1]
        return emitted

    def rest(self, last: Metadata | None = None) -> list[Batch]:
        """Emit all batches that follow; return their values."""
        batches = []
        while self.is_ready(last):
            last, values = self.new(last)
            batches.append(values)
        return batches


def test_the_attempts_field_is_declared_before_the_others() -> None:
    for kind in (MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout):
        for options, first in (({}, "tx"), ({"attempt_field": "attempt"}, "attempt")):
            declarer = OutputFieldsDeclarer("spout")
            kind({0: []}, ["word", "count"], 1, **options).declare_output_fields(declarer)
            assert declarer.streams == {"default": StreamDeclaration((first, "word", "count"))}


def test_each_partition_gives_at_most_take_rows_to_a_batch_and_all_rows_once() -> None:
    run = Run(MemoryTransactionalSpout({0: [(1,), (2,), (3,)], 1: [[10]], 2: []}, ["value"], 2))
    assert run.rest() == [[1, 2, 10], [3]]


@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    take=st.integers(1, 4),
    opaque=st.booleans(),
    data=st.data(),
)
def test_every_row_is_in_one_batch_whatever_is_tried_again(
    sizes: list[int], take: int, opaque: bool, data: st.DataObject
) -> None:
    rows = {partition: [(f"{partition}-{row}",) for row in range(size)] for partition, size in enumerate(sizes)}
    run = Run((OpaqueMemoryTransactionalSpout if opaque else MemoryTransactionalSpout)(rows, ["value"], take))
    last: Metadata | None = None
    committed: Batch = []
    while run.is_ready(last):
        metadata, values = run.new(last)
        for _ in range(data.draw(st.integers(0, 2))):
            if opaque:
                metadata, values = run.new(last)
            else:
                assert run.again(last, metadata) == values
        last = metadata
        committed += values
    assert sorted(committed) == sorted(value for each in rows.values() for (value,) in each)


def test_metadata_that_a_store_kept_continues_where_it_ended() -> None:
    first, _ = Run(MemoryTransactionalSpout(NUMBERS, ["value"], 50)).new(None)
    longer = {0: [*NUMBERS[0], (101,)]}
    assert Run(MemoryTransactionalSpout(longer, ["value"], 60)).rest(first) == [list(range(51, 102))]


def test_a_second_try_of_an_opaque_batch_that_delivers_less_skips_and_repeats_nothing() -> None:
    spout = OpaqueMemoryTransactionalSpout(NUMBERS, ["value"], 50)
    run = Run(spout)
    first, values = run.new(None)
    assert values == list(range(1, 51))
    assert run.new(first)[1] == list(range(51, 101))
    spout.take = 40  # the first batch fails, and the second one with it
    assert run.rest() == [list(range(1, 41)), list(range(41, 81)), list(range(81, 101))]


def test_a_disabled_partition_emits_nothing_and_keeps_its_metadata_until_it_is_back() -> None:
    spout = OpaqueMemoryTransactionalSpout({0: [(1,), (2,)], 1: [(10,), (20,)]}, ["value"], 1)
    run = Run(spout)
    first, _ = run.new(None)
    spout.disabled_partitions.add(1)
    second, values = run.new(first)
    assert (second, values) == ({0: [1, 1], 1: [0, 1]}, [2])
    assert not run.is_ready(second)
    spout.disabled_partitions.discard(1)
    assert run.rest(second) == [[20]]


def test_in_another_process_a_spout_is_what_it_was_when_it_was_pickled() -> None:
    spout = OpaqueMemoryTransactionalSpout(NUMBERS, ["value"], 50)
    spout.take = 40
    spout.disabled_partitions.add(7)
    program = (
        "import pickle, sys\n"
        "spout = pickle.loads(sys.stdin.buffer.read())\n"
        "print(spout.take, spout.disabled_partitions)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=cloudpickle.dumps(spout), capture_output=True)
    assert done.stdout == b"40 {7}\n", done.stderr


WRONG_ARGUMENTS: dict[str, tuple[Any, Any, Any]] = {
    "a gap": ({0: [], 2: []}, ["a"], 1),
    "not from 0": ({1: []}, ["a"], 1),
    "no partition": ({}, ["a"], 1),
    "a list of partitions": ([[("x",)]], ["a"], 1),
    "rows that are text": ({0: "text"}, ["a"], 1),
    "a row that is text": ({0: ["x"]}, ["a"], 1),
    "a row with the attempt": ({0: [("x", 1)]}, ["a"], 1),
    "fields as text": ({0: []}, "a", 1),
    "no field": ({0: []}, [], 1),
    "a field twice": ({0: []}, ["a", "a"], 1),
    "a field of the attempt's name": ({0: []}, ["tx"], 1),
    "take 0": ({0: []}, ["a"], 0),
    "take True": ({0: []}, ["a"], True),
    "take 1.5": ({0: []}, ["a"], 1.5),
}


@pytest.mark.parametrize("kind", [MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout])
@pytest.mark.parametrize(("partitions", "fields", "take"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_arguments_that_a_spout_refuses(kind: Any, partitions: Any, fields: Any, take: Any) -> None:
    with pytest.raises(TopologyError, match=rf"^{kind.__name__}: .*\.$"):
        kind(partitions, fields, take)


def test_take_is_checked_when_it_is_changed() -> None:
    spout = OpaqueMemoryTransactionalSpout(NUMBERS, ["value"], 50)
    with pytest.raises(TopologyError):
        spout.take = 0
    assert spout.take == 50
