"""Runs that are cut off behind a decision: a driver killed with SIGKILL, and a wave that fails."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.engine import RunHandle, SparkCluster
from anchorbolt.engine.spark.query import QuerySource
from anchorbolt.engine.spark.session import build_session
from anchorbolt.errors import BoltError
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import text_spout, word_count, write_lines
from tests.engine.spark.test_spark_cluster import LINES, WORDS, conf_in
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, Count, QueueSpout, wait_for
from tests.support.programs import ended
from tests.support.stores import WORKERS

ROOT = Path(__file__).resolve().parents[3]


def main(folder: Path) -> None:
    """Run the job until its source is empty; print what recovery did, and the state at the end, as JSON."""

    def publish(frame: Any, txid: int) -> None:
        rows = sorted(tuple(row) for row in frame.collect())
        marker = folder / "killed"
        if txid == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "published").mkdir(exist_ok=True)
        (folder / "published" / str(txid)).write_text(json.dumps(rows))

    topology = word_count(text_spout(folder / "in"), ParquetSink(str(folder / "out")), DataFrameSink(publish))
    spark = build_session("killed-driver", "local[2]", workers=WORKERS)
    handle = SparkCluster(spark).submit(topology, conf_in(folder), until_empty=True)
    handle.await_termination()
    print(json.dumps({"recovery": handle.recovery.action, "state": handle.state("count")}))
    spark.stop()


def run_job(folder: Path) -> subprocess.CompletedProcess[str]:
    return ended("-m", "tests.engine.spark.test_killed_driver", folder, cwd=ROOT)


@pytest.mark.thorough
def test_a_driver_killed_while_a_sink_publishes_has_one_effect(tmp_path: Path) -> None:
    write_lines(tmp_path / "in", LINES)
    first = run_job(tmp_path)
    assert first.returncode == -signal.SIGKILL, first.stdout + first.stderr
    second = run_job(tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    result = json.loads(second.stdout.splitlines()[-1])
    assert result["recovery"] == "rolled forward"
    assert result["state"] == WORDS
    expected = Counter((word, count) for word in WORDS for count in range(1, WORDS[word] + 1))
    rows = Counter((row["word"], row["count"]) for row in pq.read_table(tmp_path / "out").to_pylist())
    assert rows == expected
    published = [tuple(row) for path in (tmp_path / "published").iterdir() for row in json.loads(path.read_text())]
    assert Counter(published) == expected
    provider = SqliteStateProvider(str(tmp_path / "state"))
    for namespace in provider.namespaces():
        storage = provider.open(namespace)
        assert not storage.head().attempts, f"{namespace} keeps leftovers of a dead attempt"
        storage.close()
    assert len(list((tmp_path / "checkpoint" / "anchorbolt" / "outbox").iterdir())) == 1, "only the last round's"


if __name__ == "__main__":
    main(Path(sys.argv[1]))


QUERY_WAITS = threading.Event()


@pytest.fixture(autouse=True)
def _forget() -> None:
    jobs.forget()


class Redelivering(QueueSpout):
    """Its source has the message m0, and m1 as soon as a file exists; it delivers them in each run until acked."""

    def __init__(self, ready: Path) -> None:
        super().__init__("word")
        self.ready = ready

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        self.known = {"m0", "m1"} & set(ACKED)

    def next_tuple(self) -> None:
        for message in ("m0", "m1"):
            if message not in self.known and (message == "m0" or self.ready.exists()):
                self.known.add(message)
                self.queue.append((message, (message,)))
        super().next_tuple()


class Slow(Count):
    """While it executes m0, in a wave without a micro-batch, m1 and a row of the query arrive."""

    def __init__(self, row: Path, ready: Path) -> None:
        self.row, self.ready = row, ready

    def execute(self, tup: Any) -> None:
        super().execute(tup)
        if tup["word"] == "m0" and not self.ready.exists():
            self.row.write_text("one\n")
            QUERY_WAITS.wait(30)
            self.ready.touch()


def test_a_wave_of_the_query_that_fails_behind_its_decision_acks_nothing_twice(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, ready = tmp_path / "in", tmp_path / "ready"
    rows.mkdir()
    away, on_batch = [True], QuerySource.on_batch

    def on_batch_and_tell(query: QuerySource, frame: Any, batch_id: int) -> None:
        if list(rows.iterdir()):
            QUERY_WAITS.set()
        on_batch(query, frame, batch_id)

    monkeypatch.setattr(QuerySource, "on_batch", on_batch_and_tell)
    QUERY_WAITS.clear()

    def publish(frame: Any, txid: int) -> None:
        if away[0]:
            raise OSError("the database behind the sink is away")

    def run() -> RunHandle:
        builder = TopologyBuilder()
        builder.set_spout("lines", StreamSpout(lambda session: session.readStream.text(str(rows)), ["line"]))
        builder.set_spout("queue", Redelivering(ready))
        builder.set_bolt("count", Slow(rows / "a.txt", ready)).fields_grouping("queue", "word")
        builder.set_bolt("out", DataFrameSink(publish)).shuffle_grouping("lines")
        conf = {"topology.state.checkpoint.interval.ms": 100, "topology.checkpoint.location": str(tmp_path / "place")}
        return cluster.submit(builder.create_topology("mixed"), conf, until_empty=False)

    cluster = LocalCluster()
    handle = run()
    with pytest.raises(BoltError):
        handle.await_termination(60)
    assert ACKED == ["m0"]
    away[0] = False
    handle = run()
    wait_for(lambda: len(ACKED) == 2)
    handle.stop()
    handle.await_termination(60)
    assert handle.state("count") == {"m0": 1, "m1": 1}
