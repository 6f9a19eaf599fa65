"""Wrong components and wrong starts of transactional topologies: each is refused with its name, and changes nothing."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.errors import AnchorboltError, BoltError, TopologyError
from anchorbolt.topology import Topology
from anchorbolt.transactional import BaseBatchBolt, Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import StatefulBolt
from tests.transactional.conftest import Run
from tests.transactional.jobs import Passing, Values, attempts, batches, rows, values_topology
from tests.transactional.spouts import Pages, PagesEmitter, Ranges, RangesCoordinator, set_numbers

SPOUT = MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 1)


def chain(*bolts: Any, committer: bool = False) -> Topology:
    """The spout, and bolts in a row, called 0, 1 and so on."""
    builder = TransactionalTopologyBuilder("values", "spout", SPOUT)
    source = "spout"
    for number, bolt in enumerate(bolts):
        add = builder.set_committer_bolt if committer and number == 0 else builder.set_bolt
        add(str(number), bolt).global_grouping(source)
        source = str(number)
    return builder.build_topology()


def refusal(run: Run, topology: Topology, kind: type[AnchorboltError] = TopologyError, **given: Any) -> Any:
    with pytest.raises(kind) as raised:
        run(topology, **given)
    return raised.value


def emits(*rows: Callable[[Any], Any], times: int = 1, hook: str = "finish_batch") -> Any:
    """Return a bolt that emits rows that are made of the attempt, in one of its hooks."""

    class Emits(Passing):
        def called(self, called: str, *values: object) -> None:
            super().called(called, *values)
            if called == hook:
                for make in rows * times:
                    self.collector.emit(make(self.attempt))

        def execute(self, tup: Any) -> None:
            self.called("execute", tup[1])

        def finish_batch(self) -> None:
            self.called("finish_batch")

    return Emits()


def pair(attempt: Any) -> Any:
    return attempt, 1


@pytest.mark.parametrize("committer", [False, True])
@pytest.mark.parametrize("times", [1, 3000])
def test_a_bolt_that_emits_in_prepare(run: Run, conf: dict[str, Any], times: int, committer: bool) -> None:
    bolt = emits(pair, times=times, hook="prepare")
    error = refusal(run, chain(bolt, Values(), committer=committer))
    assert error.component == "0"
    assert len(attempts(conf, 1)) == 1
    assert batches(conf) == {}


class StatefulEmitsInPrepare(StatefulBolt, Committer):
    fields = ("tx", "value")

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        collector.emit((1, 2))


def test_a_stateful_bolt_that_emits_in_prepare(run: Run) -> None:
    assert refusal(run, chain(StatefulEmitsInPrepare())).component == "0"


WITHOUT = {
    "no attempt": lambda attempt: (1, 2),
    "only a value": lambda attempt: (1,),
    "nothing": lambda attempt: (),
    "three values": lambda attempt: (1, 2, 3),
    "another attempt": lambda attempt: (attempt._replace(txid=99), 2),
    "the txid": lambda attempt: (attempt.txid, 2),
    "two values behind the attempt": lambda attempt: (attempt, 1, 2),
    "only the attempt": lambda attempt: (attempt,),
}


@pytest.mark.parametrize("committer", [False, True])
@pytest.mark.parametrize("case", WITHOUT)
def test_a_tuple_without_its_attempt(run: Run, conf: dict[str, Any], case: str, committer: bool) -> None:
    error = refusal(run, chain(emits(WITHOUT[case]), Values(), committer=committer), BoltError)
    assert error.component == "0"
    assert "attempt" in error.message
    assert "collector.emit(" in error.user_traceback
    assert batches(conf) == {}


def test_a_tuple_whose_first_value_cannot_be_compared(run: Run) -> None:
    class Odd:
        def __eq__(self, other: object) -> Any:
            raise ValueError("compare each element")

        __hash__ = None  # type: ignore[assignment]

    assert refusal(run, chain(emits(lambda attempt: (Odd(), 2)), Values()), BoltError).component == "0"


class Made(Ranges):
    """Its coordinator returns these metadata."""

    def __init__(self, *made: Any) -> None:
        super().__init__(1, 1)
        self.made = made

    def coordinator(self, conf: Any, context: Any) -> Any:
        return MadeCoordinator(conf, self)


class MadeCoordinator(RangesCoordinator):
    spout: Made

    def is_ready(self) -> bool:
        return True

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        return self.spout.made[txid - 1]


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize("wrong", [object(), {"a": {1, 2}}, "x" * 300_000, "7", [1], LOOP], ids=lambda _: "")
def test_metadata_of_a_coordinator(run: Run, conf: dict[str, Any], wrong: Any) -> None:
    error = refusal(run, values_topology(Made(1, wrong)))
    assert error.component == "spout"
    assert batches(conf) == {1: [0]}


class Wrong(PagesEmitter):
    made: Any = None

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> Any:
        metadata = super().emit_partition_batch_new(attempt, collector, partition, last_metadata)
        return self.wrong(last_metadata) if attempt.txid == 2 else metadata

    def wrong(self, last_metadata: Any) -> Any:
        raise NotImplementedError


class Unencodable(Wrong):
    def wrong(self, last_metadata: Any) -> Any:
        return object()


class AnotherType(Wrong):
    def wrong(self, last_metadata: Any) -> Any:
        return 7


class NoMetadata(Wrong):
    def wrong(self, last_metadata: Any) -> Any:
        return None


class LastMetadata(Wrong):
    def wrong(self, last_metadata: Any) -> Any:
        return last_metadata


class TooLarge(Wrong):
    def wrong(self, last_metadata: Any) -> Any:
        return ["x" * 300_000]


@pytest.mark.parametrize("emitter", [Unencodable, AnotherType, NoMetadata, LastMetadata, TooLarge])
def test_metadata_of_an_emitter(run: Run, conf: dict[str, Any], emitter: type[PagesEmitter]) -> None:
    set_numbers(conf, 25)
    error = refusal(run, values_topology(Pages(10, emitter=emitter)))
    assert error.component == "spout"
    assert sorted(batches(conf)) == [1]
    run(values_topology(Pages(10)))
    assert batches(conf)[2] == [*range(10, 20)]


class Large(PagesEmitter):
    """Each partition's metadata is small enough, but not all together."""

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> Any:
        first, end = super().emit_partition_batch_new(attempt, collector, partition, last_metadata)
        return [first, end, "x" * 60_000]


@pytest.mark.parametrize("parallelism", [1, 5])
def test_metadata_that_is_too_large_together(run: Run, conf: dict[str, Any], parallelism: int) -> None:
    set_numbers(conf, 3)
    error = refusal(run, values_topology(Pages(10, 5, Large), parallelism=parallelism))
    assert error.component == "spout"
    assert batches(conf) == {}


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "2", None])
def test_a_number_of_partitions(run: Run, conf: dict[str, Any], number: Any) -> None:
    set_numbers(conf, 3)
    error = refusal(run, values_topology(Pages(10, number)))
    assert error.component == "spout"
    assert repr(number) in error.message


def test_fewer_partitions_than_before(run: Run, conf: dict[str, Any]) -> None:
    set_numbers(conf, 3)
    run(values_topology(Pages(10, 3)))
    set_numbers(conf, 6)
    error = refusal(run, values_topology(Pages(10, 2)))
    assert error.component == "spout"
    run(values_topology(Pages(10, 4)))
    assert sorted(batches(conf)) == [1, 2]


def test_a_bolt_that_becomes_unpicklable_after_its_first_tuples(run: Run) -> None:
    class Late(BaseBatchBolt, Committer):
        def execute(self, tup: Any) -> None:
            self.lock = threading.Lock()

    error = refusal(run, chain(Late()), BoltError, max_batch_retries=0)
    assert (error.component, error.task_index) == ("0", 0)
    assert "prepare" in error.message
