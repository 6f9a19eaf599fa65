"""A topology with a stream spout and a rich one, of which a wave fails behind its decision."""

import threading
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import DataFrameSink
from anchorbolt.engine import RunHandle
from anchorbolt.engine.spark.query import QuerySource
from anchorbolt.errors import BoltError
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.reliability import jobs
from tests.reliability.jobs import ACKED, Count, QueueSpout, wait_for

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
