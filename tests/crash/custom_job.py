"""The job of `test_custom_states`: words counted in states of a user's own, of both kinds, run in other processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.custom_states import CountInCustom
from tests.engine.jobs import SplitSentence

NAME = "custom"
TASKS = 2


def topology(conf: Mapping[str, Any]) -> Topology:
    """Return the job's topology; its input lies in the current directory."""
    source = str(Path("in").absolute())

    def lines(spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", 1).text(source)

    builder = TopologyBuilder()
    builder.set_spout("lines", StreamSpout(lines, fields=["sentence"]))
    builder.set_bolt("split", SplitSentence(), 2).shuffle_grouping("lines")
    for name in ("storm", "attempts"):
        builder.set_bolt(name, CountInCustom(), TASKS).fields_grouping("split", "word")
    return builder.create_topology(NAME)
