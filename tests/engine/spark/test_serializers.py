"""A user's serializer, and a later schema, on Spark's workers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import BaseStatefulBolt, OutputCollector
from anchorbolt.errors import CodecMismatch
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology
from tests.engine.jobs import SplitSentence
from tests.engine.spark.test_spark_cluster import LINES, WORDS, conf_in, run, text_spout, write_lines
from tests.support.serializers import Money


class Sums(BaseStatefulBolt[KeyValueState[str, Money]]):
    """A cent for every word."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, Money]) -> None:
        self.sums = state

    def execute(self, tup: Tuple) -> None:
        self.sums.put(tup["word"], self.sums.get(tup["word"], Money(0)) + 1)
        self.collector.ack(tup)


class SumsInDollars(Sums):
    """The next deployment: all in another currency, two for one."""

    state_schema_version = 2

    def upcast(self, key: str, value: Money, version: int) -> Money:
        return Money(2 * value.amount, "USD")

    def execute(self, tup: Tuple) -> None:
        self.sums.put(tup["word"], self.sums.get(tup["word"], Money(0, "USD")) + 2)
        self.collector.ack(tup)


def sums(folder: Path, bolt: Sums) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("sentences", text_spout(folder))
    builder.set_bolt("split", SplitSentence()).shuffle_grouping("sentences")
    builder.set_bolt("sums", bolt, 2).fields_grouping("split", "word")
    return builder.create_topology("sums")


def test_a_users_serializer_and_upcast_work_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    conf = conf_in(tmp_path)
    conf["topology.state.provider.config"]["valueSerializerClass"] = "tests.support.serializers.MoneySerializer"
    text = write_lines(tmp_path / "in", LINES)
    first = run(spark, sums(text, Sums()), conf)
    assert first.state("sums") == {word: Money(count) for word, count in WORDS.items()}
    (text / "9999.txt").write_text("the new line\n")
    second = run(spark, sums(text, SumsInDollars()), conf)
    expected = {word: Money(2 * count, "USD") for word, count in WORDS.items()}
    expected |= {"new": Money(2, "USD"), "line": Money(2, "USD"), "the": expected["the"] + 2}
    assert second.state("sums") == expected
    with pytest.raises(CodecMismatch, match="state_schema_version 1"):
        run(spark, sums(text, Sums()), conf)
