"""Four bolts of a thousand tasks each really run on two cores."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import CountWords, Scale, SplitSentence, Total, text_spout, write_lines
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of

TASKS = 1000


@pytest.mark.thorough
@pytest.mark.timeout(2400)
def test_a_thousand_tasks_a_bolt_commit_their_waves(
    spark: SparkSession, tmp_path: Path, redis_database: RedisServer
) -> None:
    folder = write_lines(tmp_path / "in", [["a bee a", "cat"], ["bee"]])
    builder = TopologyBuilder()
    builder.set_spout("sentences", text_spout(folder))
    builder.set_bolt("split", SplitSentence(), TASKS).shuffle_grouping("sentences")
    builder.set_bolt("count", CountWords(), TASKS).fields_grouping("split", "word")
    builder.set_bolt("scale", Scale(), TASKS).shuffle_grouping("count")
    builder.set_bolt("total", Total(), TASKS).fields_grouping("scale", "letter")
    conf = {**settings_of(redis_database), "topology.checkpoint.location": str(tmp_path / "checkpoint")}
    handle = SparkCluster(spark).submit(builder.create_topology("thousand"), conf, until_empty=True)
    assert handle.await_termination(2000)
    assert dict(handle.state("count").items()) == {"a": 2, "bee": 2, "cat": 1}
