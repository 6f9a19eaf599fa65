"""A batch that fails for good is left out where dead letters are kept, and the run goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.cli.exit_codes import WRONG_USAGE
from anchorbolt.cli.main import app
from anchorbolt.engine import RunStatus
from anchorbolt.errors import BoltError, SpoutError
from anchorbolt.transactional import (
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    OpaquePartitionedEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
)
from tests.engine.jobs import Fields, finished
from tests.reliability.jobs import letters_in
from tests.transactional.conftest import Run
from tests.transactional.jobs import Values, attempts, batches, boom, rows, values_topology
from tests.transactional.spouts import Pages, PagesEmitter, Ranges, RangesCoordinator, set_numbers


class FailsOn(Values):
    """Fails these batches in their commit phase, whenever they are tried."""

    def __init__(self, *txids: int) -> None:
        self.txids = txids

    def finish_batch(self) -> None:
        if self.attempt.txid in self.txids:
            raise boom()
        super().finish_batch()


@pytest.fixture
def letters(tmp_path: Path, conf: dict[str, Any]) -> Path:
    conf["topology.dead.letter"] = str(tmp_path / "letters")
    conf["topology.max.batch.retries"] = 1
    return tmp_path / "letters"


SPOUTS = [MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout]


@pytest.mark.parametrize("kind", SPOUTS)
def test_a_batch_that_fails_for_good_is_left_out(run: Run, conf: dict[str, Any], letters: Path, kind: Any) -> None:
    spout = kind({0: rows(range(6)), 1: rows(range(10, 12))}, ["number"], 2)
    handle = run(values_topology(spout, FailsOn(2), parallelism=2), max_spout_pending=3)
    assert handle.status is RunStatus.FINISHED
    assert [report.txid for report in handle.reports] == [1, 2, 3]
    assert [report.dead_letters for report in handle.reports] == [{}, {"spout": 1}, {}]
    assert batches(conf) == {1: [0, 1, 10, 11], 3: [4, 5]}
    assert len(attempts(conf, 2)) == 2
    [letter] = letters_in(letters)
    assert letter["txid"] == 2
    assert letter["spout"] == "spout"
    assert letter["values"] == [2, {"0": [2, 2], "1": [0, 2]}]
    assert (letter["component"], letter["task"], letter["tries"]) == ("values", 0, 2)
    assert letter["reason"].endswith("ValueError: boom")


def test_a_batch_of_one_metadata_is_left_out(run: Run, conf: dict[str, Any], letters: Path) -> None:
    run(values_topology(Ranges(2, 6), FailsOn(2)), max_spout_pending=2)
    assert batches(conf) == {1: [0, 1], 3: [4, 5]}
    assert [letter["values"] for letter in letters_in(letters)] == [[2, 4]]


@pytest.mark.parametrize("kind", SPOUTS)
def test_two_in_a_row_end_the_run(run: Run, conf: dict[str, Any], letters: Path, kind: Any) -> None:
    topology = values_topology(kind({0: rows(range(8))}, ["number"], 1), FailsOn(2, 4, 5, 7))
    handle = run(topology, wait=False)
    with pytest.raises(BoltError) as raised:
        handle.await_termination(60)
    assert raised.value.user_traceback.endswith("ValueError: boom")
    assert sorted(batches(conf)) == [1, 3]
    assert [letter["txid"] for letter in letters_in(letters)] == [2, 4]
    run(topology)
    assert sorted(batches(conf)) == [1, 3, 6, 8]


class Fails(PagesEmitter):
    def emit(self, attempt: Any, collector: Any, first: int, end: int) -> None:
        if attempt.txid == 2:
            raise ValueError("boom")
        super().emit(attempt, collector, first, end)


def test_a_batch_that_fails_before_its_metadata_is_known_ends_the_run(
    run: Run, conf: dict[str, Any], letters: Path
) -> None:
    set_numbers(conf, 25)
    with pytest.raises(SpoutError):
        run(values_topology(Pages(10, emitter=Fails)))
    assert sorted(batches(conf)) == [1]
    assert letters_in(letters) == []


class FailsAtThree(Ranges):
    def coordinator(self, conf: Any, context: Any) -> Any:
        return FailsAtThreeCoordinator(conf, self)


class FailsAtThreeCoordinator(RangesCoordinator):
    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        if txid == 3:
            raise ValueError("boom")
        return super().initialize_transaction(txid, previous_metadata)


def test_a_coordinator_that_fails_leaves_out_no_batch(run: Run, conf: dict[str, Any], letters: Path) -> None:
    with pytest.raises(SpoutError):
        run(values_topology(FailsAtThree(2, 10)), max_spout_pending=4)
    assert sorted(batches(conf)) == [1, 2]
    assert letters_in(letters) == []


def test_letters_of_batches_go_to_a_function(conf: dict[str, Any]) -> None:
    got: list[tuple[int, list[DeadLetter]]] = []
    given = {
        **conf,
        "topology.dead.letter": lambda letters, txid: got.append((txid, list(letters))),
        "topology.max.batch.retries": 0,
    }
    topology = values_topology(MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 1), FailsOn(1))
    finished(topology, given)
    [(txid, [letter])] = got
    assert (txid, letter.values, letter.is_batch) == (1, (1, {0: [0, 1]}), True)
    assert str(letter).startswith("batch 1 of spout 'spout' is a dead letter, after it was tried 1 time: bolt 'values'")


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["dead-letters", *map(str, arguments)])


def test_the_command_lists_letters_of_batches_and_refuses_to_replay_them(run: Run, letters: Path) -> None:
    run(values_topology(MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 1), FailsOn(2)))
    listed = invoke("list", letters).stdout
    assert "spout, batch 2 with the metadata {0: [1, 1]}" in listed
    assert "tried 2 times" in listed
    assert "ValueError: boom" in listed
    assert json.loads(invoke("list", letters, "--json").stdout)["txid"] == 2
    before = letters_in(letters)
    replayed = invoke("replay", letters)
    assert replayed.exit_code == WRONG_USAGE
    assert "transactional" in replayed.stderr
    assert letters_in(letters) == before


class NeverTells(PartitionedCoordinator):
    """Leaves it to the engine whether a batch is ready."""

    def number_of_partitions(self) -> int:
        return 1


class TakesTwo(OpaquePartitionedEmitter):
    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> int:
        start = last_metadata or 0
        for number in range(start, min(start + 2, 10)):
            collector.emit((attempt, number))
        return min(start + 2, 10)


class TenNumbers(Fields, OpaquePartitionedTransactionalSpout):
    fields = ("tx", "number")

    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return NeverTells()

    def emitter(self, conf: Any, context: Any) -> OpaquePartitionedEmitter:
        return TakesTwo()


def test_a_run_until_empty_does_not_end_with_a_batch_that_was_left_out(
    run: Run, conf: dict[str, Any], letters: Path
) -> None:
    """It failed: such a batch has no tuples, and was taken for the end of the source."""
    handle = run(values_topology(TenNumbers(), FailsOn(2)))
    assert handle.status is RunStatus.FINISHED
    assert batches(conf) == {1: [0, 1], 3: [4, 5], 4: [6, 7], 5: [8, 9], 6: []}
    assert [report.txid for report in handle.reports] == [1, 2, 3, 4, 5, 6]
