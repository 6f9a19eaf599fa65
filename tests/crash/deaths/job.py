"""The job that is killed, as a process of its own: `python -m tests.crash.deaths.job CONF.json`.

Two tasks of a `RedisStreamsSpout` read a stream that was filled before. The words of each message are counted; with
`late`, once both halves of a pair are there, whose handles are kept in state: so many trees are open at any moment. The
process ends when the stream is empty.

It prints a JSON line for each wave. SIGTERM stops it: it finishes what is in flight.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BasicOutputCollector
from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import RedisStreamsSpout
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, StatefulBolt
from tests.engine.vectorised.jobs import CountBlocks, SplitBlocks
from tests.servers.redis_server import RedisServer
from tests.support.process_memory import java_below, memory_mb, worker_mb

NAME, STREAM = "deaths", "messages"
GROUP = f"{NAME}:messages"
FIELDS = ("pair", "half", "text")
TASKS = 2
OWN = "deaths"  # key of the job's own configuration


class Unstable(RedisStreamsSpout):
    """The same spout, as if its ids told nothing."""

    stable_message_ids = False


class Split(BasicBolt):
    """Emits the words of a message."""

    fields = ("word",)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in tup["text"].split():
            collector.emit((word,))


class Pairs(StatefulBolt):
    """Emits the words of both halves of a pair when the second one comes, and acks both.

    A half that comes again has failed before: its new handle takes the place of the old one.
    """

    fields = ("word",)

    def execute(self, tup: Tuple) -> None:
        pair, half = tup["pair"], tup["half"]
        waiting = self.state.get(pair)
        if waiting is None or waiting[0] == half:
            self.state.put(pair, (half, tup.handle, tup["text"]))
            return
        _, handle, text = waiting
        for word in f"{text} {tup['text']}".split():
            self.collector.emit((word,), anchors=[handle, tup])
        self.state.delete(pair)
        self.collector.ack(handle)
        self.collector.ack(tup)


class Relay(BasicBolt):
    """Emits each word that it gets; is chained to the bolt that sends the words."""

    fields = ("word",)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((tup["word"],))


class SplitTexts(SplitBlocks):
    """`Split`, vectorised."""

    field = "text"


def job_conf(
    server: RedisServer,
    *,
    late: bool = False,
    stable: bool = True,
    vectorised: bool = False,
    chained: bool = False,
    batch: int = 1000,
    spout_tasks: int = TASKS,
) -> dict[str, Any]:
    """Return what the job finds in its configuration.

    Args:
        server: The server of the stream.
        late: Whether messages are acked late.
        stable: Whether the spout says that its ids are stable.
        vectorised: Whether bolts that can be are vectorised.
        chained: Whether bolts are chained.
        batch: How many messages a task of the spout reads at one time.
        spout_tasks: How many tasks the spout has. It may change from start to start.
    """
    place = {"host": server.host, "port": server.port}
    kinds = {"late": late, "stable": stable, "vectorised": vectorised, "chained": chained}
    return {OWN: {**place, **kinds, "batch": batch, "spout_tasks": spout_tasks}}


def topology(conf: Mapping[str, Any]) -> Topology:
    builder, own = TopologyBuilder(), conf[OWN]
    kind = RedisStreamsSpout if own["stable"] else Unstable
    spout = kind(STREAM, FIELDS, host=own["host"], port=own["port"], batch=own["batch"])
    builder.set_spout("messages", spout, own["spout_tasks"])
    if own["late"]:
        builder.set_bolt("words", Pairs(), TASKS).fields_grouping("messages", "pair")
    else:
        split = SplitTexts() if own["vectorised"] else Split()
        builder.set_bolt("words", split, TASKS).shuffle_grouping("messages")
    if own["chained"]:
        builder.set_bolt("relay", Relay(), TASKS).none_grouping("words")
    count = CountBlocks() if own["vectorised"] else StatefulBolt()
    builder.set_bolt("count", count, TASKS).fields_grouping("relay" if own["chained"] else "words", "word")
    return builder.create_topology(NAME)


def run_job(path: str, make: Callable[[Mapping[str, Any]], Topology], first: str) -> None:
    """Run a topology until its source is empty; `first` is its spout, or the bolt that gets each message once.

    Prints a JSON line for each wave.
    """

    def show(wave: WaveReport) -> None:
        content = {
            "at": time.time(),
            "txid": wave.txid,
            "messages": wave.tuples_in.get(first, 0),
            "rounds": wave.rounds,
            "ms": round(wave.total_ms),
            "mb": round(memory_mb()),
            "java_mb": round(memory_mb(java)) if java else 0,
            "worker_mb": round(worker_mb()),
        }
        print(json.dumps(content), flush=True)

    conf = json.loads(Path(path).read_text())
    spark = build_session(NAME, "local[2]", workers=conf.get("topology.workers", 0))
    java = java_below(os.getpid())
    handle = SparkCluster(spark).submit(make(conf), conf, until_empty=True, on_wave=show)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=handle.stop).start())
    print(f"recovery: {handle.recovery}", flush=True)
    handle.await_termination()


if __name__ == "__main__":
    run_job(sys.argv[1], topology, "words")
