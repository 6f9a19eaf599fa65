"""Four bolts of a thousand tasks each really run on two cores."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from tests.engine.jobs import CountWords, Scale, SplitSentence, Total, chain, text_spout, write_lines
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of

TASKS = 1000


@pytest.mark.thorough
@pytest.mark.timeout(2400)
def test_a_thousand_tasks_a_bolt_commit_their_waves(
    spark: SparkSession, tmp_path: Path, redis_database: RedisServer
) -> None:
    folder = write_lines(tmp_path / "in", [["a bee a", "cat"], ["bee"]])
    conf = {**settings_of(redis_database), "topology.checkpoint.location": str(tmp_path / "checkpoint")}
    handle = SparkCluster(spark).submit(
        chain(
            "thousand",
            {
                "sentences": text_spout(folder),
                "split": (SplitSentence(), TASKS),
                "count": (CountWords(), TASKS, "word"),
                "scale": (Scale(), TASKS),
                "total": (Total(), TASKS, "letter"),
            },
        ),
        conf,
        until_empty=True,
    )
    assert handle.await_termination(2000)
    assert dict(handle.state("count").items()) == {"a": 2, "bee": 2, "cat": 1}
