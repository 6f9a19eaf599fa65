"""Storm's RollingTopWords: the five most frequent words of the last nine seconds, every three seconds.

By the words' own times; without `event_time` the same by the clock of the waves, as in Storm.
"""

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import RollingCount, Sliding, TopN, Tumbling

WORDS = ("nathan", "mike", "jackson", "golda", "bertels", "marz", "storm", "spark")


def word(message):
    """A hundred words a second, the first ones more often."""
    return WORDS[message * message % 61 % len(WORDS)], message * 10


def wire(spout, sink):
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    counter = RollingCount(Sliding("9 s", every="3 s"), event_time="at", lag="1 s")
    builder.set_bolt("counter", counter, 4).fields_grouping("words", "word")
    builder.set_bolt("intermediate", TopN(5, Tumbling("3 s"), event_time="at"), 4).fields_grouping("counter", "key")
    builder.set_bolt("total", TopN(5, Tumbling("3 s"), event_time="at")).global_grouping("intermediate")
    builder.set_bolt("out", sink).global_grouping("total")
    return builder.create_topology("rolling-top-words")


def topology(conf):
    return wire(
        GeneratorSpout(["word", "at"], word, count=6000), ParquetSink(conf.get("windows.output", "out-top-words"))
    )
