"""Chained bolts on Spark: they have no stage, change no result, and a worker that dies is noticed as before."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import BasicOutputCollector, ParquetSink
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark import jobs
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.run.handle import RunHandle
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import BasicBolt, CountWords, Fields, SplitSentence, kept_in, text_spout, write_lines
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, RichBolt, forget
from tests.support.stores import WORKERS

LINES = [["the quick brown fox", "jumps over the lazy dog"], ["the end", "over and over"], ["dog"], ["a fox"]]
WORDS = Counter(word for batch in LINES for line in batch for word in line.split())

Stages = list[int]


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    """The number of Spark stages of each round."""
    found: Stages = []

    def collect_rows(session: SparkSession, plan: ExecutionPlan, frame: Any, current: Round) -> Iterator[Envelope]:
        rows = collect(session, plan, frame, current)
        context = session.sparkContext
        tracker = context.statusTracker()
        job = tracker.getJobInfo(max(tracker.getJobIdsForGroup(context.getLocalProperty("spark.jobGroup.id"))))
        assert job is not None
        found.append(len(job.stageIds))
        return rows

    collect: Callable[..., Iterator[Envelope]] = jobs.collect_rows
    monkeypatch.setattr(jobs, "collect_rows", collect_rows)
    return found


def run(spark: SparkSession, topology: Topology, folder: Path, **more: Any) -> RunHandle:
    """Run a topology until its source is empty."""
    conf = {**kept_in(folder), "topology.state.checkpoint.interval.ms": 100, **more}
    handle = SparkCluster(spark).submit(topology, conf, until_empty=True)
    assert handle.await_termination(240)
    return handle


class Passes(BasicBolt):
    fields = ("word",)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((tup["word"],))


def four_bolts(folder: Path, grouping: str, passes: Passes) -> Topology:
    """Return a topology of two pairs of bolts that this grouping joins."""
    builder = TopologyBuilder()
    builder.set_spout("lines", text_spout(folder / "in"))
    builder.set_bolt("split", SplitSentence(), 2).shuffle_grouping("lines")
    getattr(builder.set_bolt("pass", passes, 2), f"{grouping}_grouping")("split")
    builder.set_bolt("count", CountWords(), 2).fields_grouping("pass", "word")
    getattr(builder.set_bolt("out", ParquetSink(str(folder / "out")), 2), f"{grouping}_grouping")("count")
    return builder.create_topology("four-bolts")


def assert_counted(handle: RunHandle, folder: Path) -> None:
    assert handle.state("count") == WORDS
    rows = sorted((row["word"], row["count"]) for row in pq.read_table(folder / "out").to_pylist())
    assert rows == sorted((word, count) for word in WORDS for count in range(1, WORDS[word] + 1))
    assert [report.txid for report in handle.reports] == [0, 1, 2, 3]
    executed = Counter[str]()
    for report in handle.reports:
        executed.update(report.tuples_in)
    words = WORDS.total()
    assert executed == {"lines": 6, "split": 6, "pass": words, "count": words, "out": words}


@pytest.mark.parametrize(("grouping", "bolt_stages"), [("local_or_shuffle", 2), ("shuffle", 4)])
def test_a_chained_bolt_has_no_stage_and_the_results_are_the_same(
    spark: SparkSession, tmp_path: Path, stages: Stages, grouping: str, bolt_stages: int
) -> None:
    write_lines(tmp_path / "in", LINES)
    assert_counted(run(spark, four_bolts(tmp_path, grouping, Passes()), tmp_path), tmp_path)
    assert WORKERS or set(stages) == {1 + bolt_stages}


class DiesOnce(Passes):
    """Kills its worker once."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        super().execute(tup, collector)
        if tup["word"] == "dog" and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_changes_nothing_and_all_bolts_of_its_partition_are_named(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_lines(tmp_path / "in", LINES)
    handle = run(spark, four_bolts(tmp_path, "none", DiesOnce(tmp_path / "died")), tmp_path)
    assert (tmp_path / "died").exists()
    assert_counted(handle, tmp_path)
    [warned] = [message for message in caplog.messages if "tried again" in message]
    assert WORKERS or "bolt 'split' or bolt 'pass', task" in warned
    assert WORKERS or "('split'" in warned, "in a worker that stays it has reported"
    assert "('pass'" in warned


class Anchors(RichBolt):
    """Emits each word anchored, then acks it; fails a word that it sees for the first time, if it is bad."""

    fields = ("word",)

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses

    def execute(self, tup: Tuple) -> None:
        if tup["word"] == self.refuses and not os.path.exists(self.conf["failed"]):
            Path(self.conf["failed"]).touch()
            self.collector.fail(tup)
            return
        self.collector.emit((tup["word"],), anchors=tup)
        self.collector.ack(tup)


def test_messages_are_acked_once_and_failed_ones_come_again_along_a_chain(
    spark: SparkSession, tmp_path: Path, stages: Stages
) -> None:
    forget()
    MESSAGES.extend((number, (f"word{number % 7}",)) for number in range(60))
    builder = TopologyBuilder()
    builder.set_spout("words", QueueSpout("word"))
    builder.set_bolt("first", Anchors(), 2).fields_grouping("words", "word")
    builder.set_bolt("second", Anchors("word3"), 2).none_grouping("first")
    builder.set_bolt("count", CountWords(), 2).local_or_shuffle_grouping("second")
    builder.set_bolt("last", Anchors(), 2).none_grouping("count")
    handle = run(spark, builder.create_topology("tracked"), tmp_path, failed=str(tmp_path / "failed"))
    assert sorted(ACKED) == list(range(60))
    assert len(FAILED) == 1
    assert handle.state("count") == Counter(f"word{number % 7}" for number in range(60))
    assert WORKERS or set(stages) == {3}, "the spout, the chain, and the ackers"


class Partial(Fields, BaseBatchBolt):
    """Sums the numbers of a batch in the processing phase."""

    fields = ("tx", "sum")

    def prepare(self, conf: Mapping[str, Any], context: Any, collector: Any, id: Any) -> None:
        self.collector, self.id, self.sum = collector, id, 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup[1]

    def finish_batch(self) -> None:
        self.collector.emit((self.id, self.sum))


class Total(Partial, Committer):
    """Sums them in the commit phase."""


class Doubles(BasicBolt):
    fields = ("tx", "number")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((tup[0], 2 * tup[1]))


def test_bolts_of_each_phase_of_a_transactional_topology_are_chained(
    spark: SparkSession, tmp_path: Path, stages: Stages
) -> None:
    rows = [[(number,) for number in range(10)], [(number,) for number in range(10, 20)]]
    spout = MemoryTransactionalSpout(dict(enumerate(rows)), ["number"], 5)
    builder = TransactionalTopologyBuilder("batches", "numbers", spout)
    builder.set_bolt("double", Doubles(), 2).shuffle_grouping("numbers")
    builder.set_bolt("partial", Partial(), 2).none_grouping("double")
    builder.set_bolt("total", Total()).global_grouping("partial")
    sink = ParquetSink(str(tmp_path / "out"), schema=pa.schema([("tx", pa.int64()), ("sum", pa.int64())]))
    builder.set_bolt("out", sink).local_or_shuffle_grouping("total")
    run(spark, builder.build_topology(), tmp_path)
    found = sorted(tuple(row.values()) for row in pq.read_table(tmp_path / "out").to_pylist())
    assert found == [(1, 2 * (sum(range(5)) + sum(range(10, 15)))), (2, 2 * (sum(range(5, 10)) + sum(range(15, 20))))]
    assert WORKERS or set(stages) == {3, 1}, "spout, double and total; in the commit phase, total"
