"""A user's serializer, and a later schema, on Spark's workers."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.errors import CodecMismatch
from anchorbolt.streams.tuple import Tuple
from tests.engine.jobs import StatefulBolt, counted
from tests.engine.spark.test_spark_cluster import LINES, WORDS, conf_in, run, text_spout, write_lines
from tests.support.serializers import Money


class Sums(StatefulBolt):
    """A cent for every word."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["word"], self.state.get(tup["word"], Money(0)) + 1)


class SumsInDollars(StatefulBolt):
    """The next deployment: all in another currency, two for one."""

    state_schema_version = 2

    def upcast(self, key: str, value: Money, version: int) -> Money:
        return Money(2 * value.amount, "USD")

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["word"], self.state.get(tup["word"], Money(0, "USD")) + 2)


def test_a_users_serializer_and_upcast_work_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    conf = conf_in(tmp_path)
    conf["topology.state.provider.config"]["valueSerializerClass"] = "tests.support.serializers.MoneySerializer"
    text = write_lines(tmp_path / "in", LINES)
    first = run(spark, counted(text_spout(text), Sums()), conf)
    assert first.state("count") == {word: Money(count) for word, count in WORDS.items()}
    (text / "9999.txt").write_text("the new line\n")
    second = run(spark, counted(text_spout(text), SumsInDollars()), conf)
    expected = {word: Money(2 * count, "USD") for word, count in WORDS.items()}
    expected |= {"new": Money(2, "USD"), "line": Money(2, "USD"), "the": expected["the"] + 2}
    assert second.state("count") == expected
    with pytest.raises(CodecMismatch, match="state_schema_version 1"):
        run(spark, counted(text_spout(text), Sums()), conf)
