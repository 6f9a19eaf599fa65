"""What the tests of `KafkaTransactionalSpout` do in a process whose Spark has the connector for Kafka.

The JVM of the tests' own process has no connector, and a JVM's class path cannot be changed. So the tests call these
functions in a process of their own (the fixture `kafka_driver`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.bolts import BaseStatefulBolt, BasicOutputCollector, FailedException, OutputCollector
from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine import LocalCluster, RunHandle, SparkCluster
from anchorbolt.errors import AnchorboltError
from anchorbolt.faults.points import FaultPoint, PointReached, observe
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology
from anchorbolt.transactional import Committer, KafkaTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import BasicBolt, kept_in
from tests.servers.kafka_topics import KafkaTopics
from tests.support.stores import WORKERS

FIELDS = ("topic", "partition", "offset", "value")


def session_with(jars: str) -> SparkSession:
    from anchorbolt.engine.spark.session import build_session

    return build_session("kafka", "local[4]", SparkOptions(jars=jars), jobs_at_once=2, workers=WORKERS)


class Watched(KafkaTransactionalSpout):
    """Notes the rows of each try of a batch; more messages come whenever a batch is read."""

    kafka: KafkaTopics | None = None
    tries: list[tuple[str, list[list[Any]]]]

    def read(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        frame = super().read(spark, start, end)
        if self.kafka is not None:
            self.kafka.send_to(self.topics[0], {0: ["more"], 1: ["more"]})
            self.tries.append((json.dumps([start, end]), [[*row] for row in frame.collect()]))
        return frame


class Pass(BasicBolt):
    """Fails the first try of the batches of `txids`; the folder remembers which have been tried."""

    fields = ("tx", "txid", "values")

    def __init__(self, folder: str, txids: Sequence[int]) -> None:
        self.folder = folder
        self.txids = txids

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        attempt, *values = tup.values
        if attempt.txid in self.txids:
            seen = Path(self.folder, f"failed-{attempt.txid}")
            if not seen.exists():
                seen.touch()
                raise FailedException("once")
        collector.emit((attempt, attempt.txid, values))


class Collect(BaseStatefulBolt[KeyValueState[str, Any]], Committer):
    """Keeps the tuples of each batch by its txid."""

    def prepare(self, conf: Mapping[str, Any], context: Any, collector: OutputCollector) -> None:
        pass

    def init_state(self, state: KeyValueState[str, Any]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        key = str(tup["txid"])
        self.state.put(key, [*self.state.get(key, []), tup["values"]])


def collecting(spout: KafkaTransactionalSpout, folder: str, fails: Sequence[int] = ()) -> Topology:
    builder = TransactionalTopologyBuilder("kafka", "spout", spout)
    builder.set_bolt("pass", Pass(folder, fails), 2).fields_grouping("spout", "partition")
    builder.set_bolt("collect", Collect()).global_grouping("pass")
    return builder.build_topology()


class Growing(KafkaTransactionalSpout):
    """Adds messages to its topic when it reads the first 5 batches, or tries of a batch, of a run."""

    reads = 0

    def read(self, spark: SparkSession, start: Any, end: Any) -> DataFrame:
        self.reads += 1
        if self.reads <= 5:
            values = [f"{os.getpid()}-{self.reads}-{number}" for number in range(3)]
            KafkaTopics(self.bootstrap_servers).send_to(self.topics[0], {0: values, 1: values[1:]})
        return super().read(spark, start, end)


def growing() -> Topology:
    """The job of the tests that kill it; the environment says where it reads."""
    servers, topic = os.environ["KAFKA_SERVERS"], os.environ["KAFKA_TOPIC"]
    return collecting(Growing(servers, topic, FIELDS, max_offsets_per_batch=7), ".")


Outcome = tuple[dict[int, list[list[Any]]], str]
"""The tuples of each batch by txid, in their order; and the class name of the error that ended the run, or ''."""


class Driver:
    """A process's session, and a server."""

    def __init__(self, jars: str, servers: str) -> None:
        self.spark = session_with(jars)
        self.servers = servers

    def values_in(self, topic: str) -> dict[int, list[str]]:
        """Return all that a topic has, by partition."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        rows = reader.option("subscribe", topic).load().orderBy("offset")
        found: dict[int, list[str]] = {}
        for row in rows.selectExpr("partition", "CAST(value AS STRING)").collect():
            found.setdefault(row[0], []).append(row[1])
        return found

    def run(
        self,
        folder: str,
        topics: str | Sequence[str],
        *,
        fails: Sequence[int] = (),
        pending: int = 1,
        local: bool = False,
        crash: bool = False,
        rounds: int = 3,
        servers: str = "",
        accept_loss: bool = False,
        **options: Any,
    ) -> Outcome:
        """Run a topology on a topic until it is empty. With `crash`, the driver fails after a processing phase."""
        spout = KafkaTransactionalSpout(servers or self.servers, topics, FIELDS, **options)
        return self._run(
            spout, folder, fails, pending, local=local, crash=crash, rounds=rounds, accept_loss=accept_loss
        )

    def run_watched(
        self, folder: str, topic: str, fails: Sequence[int], pending: int, batches: int
    ) -> tuple[Outcome, list[tuple[str, list[list[Any]]]]]:
        """Run a topology on a topic that always gets more messages; stop it after so many batches."""
        spout = Watched(self.servers, topic, FIELDS, max_offsets_per_batch=6)
        spout.kafka, spout.tries = KafkaTopics(self.servers), []
        return self._run(spout, folder, fails, pending, batches=batches), spout.tries

    def _run(
        self,
        spout: KafkaTransactionalSpout,
        folder: str,
        fails: Sequence[int],
        pending: int,
        *,
        local: bool = False,
        crash: bool = False,
        rounds: int = 3,
        batches: int = 0,
        accept_loss: bool = False,
    ) -> Outcome:
        conf = {**kept_in(Path(folder)), "topology.max.spout.pending": pending, "topology.max.batch.retries": rounds}
        conf["topology.state.accept.loss"] = accept_loss

        def fail(reached: PointReached) -> None:
            if crash and reached.point is FaultPoint.BATCH_PROCESSED:
                raise RuntimeError("crash")

        def stop(report: Any) -> None:
            Path(folder, f"committed-{report.txid}").write_text(json.dumps(report.source_offsets_behind))
            if report.txid == batches:
                stopping.submit(handle.stop)

        before = observe(fail)
        try:
            with ThreadPoolExecutor(1) as stopping:
                cluster: Any = LocalCluster() if local else SparkCluster(self.spark)
                handle: RunHandle = cluster.submit(
                    collecting(spout, folder, fails), conf, until_empty=True, on_wave=stop
                )
                error = ""
                try:
                    handle.await_termination()
                except AnchorboltError as failure:
                    error = type(failure).__name__
                return {int(txid): rows for txid, rows in handle.state("collect").items()}, error
        finally:
            observe(before)


_driver: Driver | None = None


def start_driver(jars: str, servers: str) -> None:
    """Called once in the process."""
    global _driver
    _driver = Driver(jars, servers)


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of the driver."""
    return getattr(_driver, name)(*arguments, **options)
