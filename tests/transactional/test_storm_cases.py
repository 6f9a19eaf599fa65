"""The examples of Storm's page on transactional topologies, on both engines."""

from collections import Counter
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.engine import SparkCluster
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.transactional.conftest import Run
from tests.transactional.jobs import CountBatch, Database, Passing, PassingCommitter, UpdateCounts, calls, note, notes

WORDS = {partition: [(f"w{number % 7}",) for number in range(120 + partition)] for partition in range(3)}


def in_all(tup: Tuple) -> tuple[str, int]:
    return "all", tup["count"]


def one_of_word(tup: Tuple) -> tuple[str, int]:
    return tup["word"], 1


def bucket_of(count: int) -> str:
    return f"{count // 10 * 10}+"


class UpdateBuckets(UpdateCounts):
    """Storm's BucketCountUpdater: moves a word from the bucket of its old count to that of the new one."""

    def execute(self, tup: Tuple) -> None:
        self.amounts[bucket_of(tup["value"])] += 1
        if tup["before"]:
            self.amounts[bucket_of(tup["before"])] -= 1


def test_the_global_count(run_on: Run, conf: dict[str, Any]) -> None:
    spout = MemoryTransactionalSpout(WORDS, ["word"], 50)
    builder = TransactionalTopologyBuilder("global-count", "spout", spout, parallelism=2)
    builder.set_bolt("partial", CountBatch(), parallelism=3).shuffle_grouping("spout")
    builder.set_bolt("sum", UpdateCounts("counts", in_all)).global_grouping("partial")
    topology = builder.build_topology()
    handle = run_on(topology, max_spout_pending=2)
    assert [report.txid for report in handle.reports] == [1, 2, 3]
    assert [report.rounds for report in handle.reports] == [2, 1, 1]  # the first try fails behind its update
    assert Database(conf, "counts").values() == {"all": 363}
    assert list(run_on(topology).reports) == []


def test_words_update_two_databases(run_on: Run, conf: dict[str, Any]) -> None:
    builder = TransactionalTopologyBuilder("words", "spout", MemoryTransactionalSpout(WORDS, ["word"], 50), 2)
    builder.set_bolt("counts", UpdateCounts("words", one_of_word), parallelism=2).fields_grouping("spout", "word")
    builder.set_bolt("buckets", UpdateBuckets("buckets", one_of_word)).global_grouping("counts")
    run_on(builder.build_topology(), max_spout_pending=3)
    expected = Counter(word for rows in WORDS.values() for (word,) in rows)
    assert Database(conf, "words").values() == expected
    buckets = {key: value for key, value in Database(conf, "buckets").values().items() if value}
    assert buckets == Counter(map(bucket_of, expected.values()))


def abcd(sink: Any = None) -> Topology:
    """spout → A → B (committer) → C → D (committer), and A → C."""
    spout = MemoryTransactionalSpout({0: [(letter,) for letter in "rstu"]}, ["value"], 1)
    builder = TransactionalTopologyBuilder("abcd", "spout", spout)
    builder.set_bolt("A", Passing()).global_grouping("spout")
    builder.set_bolt("B", PassingCommitter()).global_grouping("A")
    builder.set_bolt("C", Passing()).global_grouping("A").global_grouping("B")
    builder.set_bolt("D", PassingCommitter()).global_grouping("C")
    if sink is not None:
        builder.set_bolt("sink", sink).global_grouping("D")
    return builder.build_topology()


def in_order(noted: list[str], *expected: str) -> bool:
    """Return whether these calls were noted, each once, in this order."""
    return [line for line in noted if line in expected] == list(expected)


def test_the_phases_of_bolts_below_a_committer(run_on: Run, conf: dict[str, Any], tmp_path: Any) -> None:
    topology = abcd(ParquetSink(str(tmp_path / "out")))
    run_on(topology, max_spout_pending=3, on_wave=lambda report: note(conf, "call", report.txid, "committed"))
    for txid, letter in enumerate("rstu", start=1):
        noted = calls(conf, txid)
        processing, commit = noted[: noted.index("B finish_batch")], noted[noted.index("B finish_batch") :]
        # C and D execute in the processing phase what comes from A; nothing but A finishes.
        assert in_order(processing, f"A execute {letter}", "A finish_batch", f"B execute {letter}A")
        assert in_order(processing, f"C execute {letter}A", f"D execute {letter}AC")
        assert sorted(processing) == sorted(
            [
                *(f"A execute {letter}", "A finish_batch"),
                *(f"B execute {letter}A", "B execute A", f"C execute {letter}A", "C execute A"),
                # What B emits from its execute belongs to the processing phase, too.
                *(f"C execute {letter}AB", "C execute AB"),
                *(f"D execute {value}C" for value in (f"{letter}A", "A", f"{letter}AB", "AB")),
            ]
        )
        assert commit == [
            "B finish_batch",
            "C execute B",
            "C finish_batch",
            "D execute BC",
            "D execute C",
            "D finish_batch",
            "committed",
        ]
    commits = [line for line in notes(conf, "call") if line.endswith(("B finish_batch", "committed"))]
    # No commit phase begins before the batch before has committed.
    assert commits == [f"{txid} {what}" for txid in (1, 2, 3, 4) for what in ("B finish_batch", "committed")]
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert sorted(row["tx"] for row in rows) == [txid for txid in (1, 2, 3, 4) for _ in range(7)]
    assert sorted(row["value"] for row in rows if row["tx"] == 2) == sorted(
        ["sACD", "ACD", "sABCD", "ABCD", "BCD", "CD", "D"]
    )


PUBLISHED: dict[int, list[tuple[int, str]]] = {}


def publish(frame: Any, txid: int) -> None:
    PUBLISHED[txid] = [tuple(row) for row in frame.collect()]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_dataframe_sink_gets_the_txid_in_its_first_column(spark: Any, conf: dict[str, Any]) -> None:
    PUBLISHED.clear()
    spout = MemoryTransactionalSpout({0: [("a",), ("b",)]}, ["word"], 1)
    builder = TransactionalTopologyBuilder("sink", "spout", spout)
    builder.set_bolt("sink", DataFrameSink(publish)).global_grouping("spout")
    assert SparkCluster(spark).submit(builder.build_topology(), conf, until_empty=True).await_termination(120)
    assert PUBLISHED == {1: [(1, "a")], 2: [(2, "b")]}
