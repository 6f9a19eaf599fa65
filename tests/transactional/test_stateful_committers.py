"""Committers: with state that is checkpointed with its batch, with what cannot be pickled, and sinks behind them."""

import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.errors import BoltError
from anchorbolt.streams import Tuple
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology
from anchorbolt.transactional import (
    BaseBatchBolt,
    Committer,
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    TransactionalTopologyBuilder,
)
from tests.engine.jobs import Fields, finished
from tests.transactional.conftest import Run
from tests.transactional.jobs import Passing, first_times, note, notes, rows


class Sums(Fields, BaseStatefulBolt[Any], Committer):
    """Keeps the sum by the last digit, and notes what it reads at the beginning of each batch."""

    fields = ("tx", "total")

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.conf, self.collector = conf, collector
        self.batch: list[Any] = []

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        if not self.batch:
            note(self.conf, "total", tup[0].txid, self.state.get("total", 0))
        self.batch.append(tup)
        self.state.put(tup["number"] % 10, self.state.get(tup["number"] % 10, 0) + 1)

    def finish_batch(self) -> None:
        total = self.state.get("total", 0) + sum(tup["number"] for tup in self.batch)
        self.state.put("total", total)
        txid = self.batch[0][0].txid
        self.collector.emit((self.batch[0][0], total), anchors=self.batch[0])
        self.batch = []
        if txid == 3 and first_times(self.conf, "sums", 2):
            raise ValueError("boom")


class Unmarked(BaseStatefulBolt[Any]):
    """The same without the marker, and without finish_batch."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        pass

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["number"], self.state.get(tup["number"], 0) + 1)


def summed(*sinks: Any, end: int = 50, opaque: bool = False) -> Topology:
    kind = OpaqueMemoryTransactionalSpout if opaque else MemoryTransactionalSpout
    builder = TransactionalTopologyBuilder("sums", "spout", kind({0: rows(range(end))}, ["number"], 10))
    builder.set_bolt("sums", Sums()).global_grouping("spout")
    builder.set_committer_bolt("each", Unmarked(), 3).fields_grouping("spout", "number")
    for number, sink in enumerate(sinks):
        builder.set_bolt(f"sink{number}", sink).global_grouping("sums")
    return builder.build_topology()


def digits(count: int) -> dict[Any, int]:
    return dict.fromkeys(range(10), count)


@pytest.mark.parametrize("opaque", [False, True])
def test_state_is_checkpointed_once_with_each_batch(run: Run, conf: dict[str, Any], opaque: bool) -> None:
    handle = run(summed(opaque=opaque), max_spout_pending=4)
    assert [report.rounds for report in handle.reports] == [1, 1, 3, 1, 1]
    assert handle.state("sums") == {**digits(5), "total": sum(range(50))}
    assert handle.state("each") == dict.fromkeys(range(50), 1)
    # What a bolt reads is the state behind the batch before, in each try.
    before = {txid: sum(range(10 * txid - 10)) for txid in range(1, 6)}
    assert notes(conf, "total") == [f"{txid} {before[txid]}" for txid in (1, 2, 3, 3, 3, 4, 5)]
    handle = run(summed(end=80, opaque=opaque), max_spout_pending=2)
    assert handle.state("sums") == {**digits(8), "total": sum(range(80))}


def test_state_in_memory_continues_in_the_same_cluster(conf: dict[str, Any]) -> None:
    cluster = LocalCluster()
    for end in (20, 30, 50):
        handle = finished(summed(end=end), {"notes": conf["notes"]}, cluster=cluster)
        assert handle.state("sums") == {**digits(end // 10), "total": sum(range(end))}


def test_a_sink_behind_a_committer_has_the_txid_in_its_first_column(run: Run, tmp_path: Path) -> None:
    run(summed(ParquetSink(str(tmp_path / "out"))), max_spout_pending=3)
    table = pq.read_table(tmp_path / "out").sort_by("tx")
    assert table.column_names[0] == "tx"
    assert table.to_pylist() == [{"tx": txid, "total": sum(range(10 * txid))} for txid in range(1, 6)]


class Holds(Fields, BaseBatchBolt):
    """Holds a lock, which cannot be pickled, and notes on which call of which phase it is."""

    fields = ("tx", "number")

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.conf, self.collector, self.attempt = conf, collector, id
        self.lock = threading.Lock()
        self.numbers: list[int] = []

    def execute(self, tup: Tuple) -> None:
        with self.lock:
            self.numbers.append(tup["number"])
        note(self.conf, "executed", tup["number"])

    def finish_batch(self) -> None:
        note(self.conf, "executed", "finish")
        self.collector.emit((self.attempt, sum(self.numbers)))


def test_a_committer_that_cannot_be_pickled_gets_its_tuples_in_the_commit_phase(run: Run, conf: dict[str, Any]) -> None:
    builder = TransactionalTopologyBuilder(
        "holds", "spout", MemoryTransactionalSpout({0: rows(range(9))}, ["number"], 3)
    )
    builder.set_committer_bolt("holds", Holds()).global_grouping("spout")
    builder.set_committer_bolt("sums", Unmarked()).global_grouping("holds")
    topology = builder.build_topology()
    handle = run(topology, max_spout_pending=3, on_wave=lambda report: note(conf, "executed", "committed"))
    batches = [[*map(str, numbers), "finish", "committed"] for numbers in ((0, 1, 2), (3, 4, 5), (6, 7, 8))]
    assert notes(conf, "executed") == [each for batch in batches for each in batch]
    assert handle.state("sums") == {3: 1, 12: 1, 21: 1}


class KeepsTuples(BaseBatchBolt, Committer):
    """Keeps whole tuples until its commit phase."""

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.conf, self.context, self.collector, self.id = conf, context, collector, id
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)

    def finish_batch(self) -> None:
        assert self.id == self.kept[0][0]
        note(
            self.conf,
            "kept",
            self.context.this_component_id,
            *(f"{t.source_component}:{t['value']}" for t in self.kept),
        )


def test_tuples_that_a_committer_keeps_are_whole_in_the_commit_phase(run: Run, conf: dict[str, Any]) -> None:
    spout = MemoryTransactionalSpout({0: [("é",), ("z",)]}, ["value"], 1)
    builder = TransactionalTopologyBuilder("keeps", "spout", spout)
    builder.set_bolt("pass", Passing()).global_grouping("spout")
    builder.set_bolt("keeps", KeepsTuples()).global_grouping("pass").global_grouping("spout")
    run(builder.build_topology(), max_spout_pending=2)
    kept = [sorted(line.split()) for line in notes(conf, "kept keeps")]
    assert kept == [sorted([f"spout:{letter}", f"pass:{letter}pass", "pass:pass"]) for letter in ("é", "z")]


class CannotReturn(BaseBatchBolt, Committer):
    """Pickles, but cannot be unpickled."""

    def execute(self, tup: Tuple) -> None:
        self.executed = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "executed" in state:
            raise ValueError("boom")
        self.__dict__.update(state)


def test_an_instance_that_cannot_be_unpickled_is_a_fault_of_its_bolt(run: Run) -> None:
    builder = TransactionalTopologyBuilder("returns", "spout", MemoryTransactionalSpout({0: rows([1])}, ["number"], 3))
    builder.set_bolt("bad", CannotReturn()).global_grouping("spout")
    with pytest.raises(BoltError) as raised:
        run(builder.build_topology(), max_batch_retries=0)
    assert (raised.value.component, raised.value.task_index) == ("bad", 0)
    assert raised.value.user_traceback.endswith("ValueError: boom")
