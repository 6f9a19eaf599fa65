"""The job that the demo kills: the word count of `job.py` with a few files a wave, so that it has many waves."""

from collections.abc import Mapping
from typing import Any

from job import SplitSentence, WordCount

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology

__all__ = ["FILES_PER_WAVE", "topology"]

FILES_PER_WAVE = 2


def topology(conf: Mapping[str, Any]) -> Topology:
    """Build the job; `demo.input` is the folder of text files, `demo.output` the folder of the sink."""
    builder = TopologyBuilder()
    builder.set_spout(
        "sentences",
        StreamSpout(
            lambda spark: spark.readStream.option("maxFilesPerTrigger", FILES_PER_WAVE).text(conf["demo.input"]),
            fields=["sentence"],
        ),
    )
    builder.set_bolt("split", SplitSentence(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", ParquetSink(conf["demo.output"])).global_grouping("count")
    return builder.create_topology("word-count-demo")
