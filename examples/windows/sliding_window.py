"""Storm's SlidingWindowTopology: a sliding sum of numbers, and the average of three sums."""

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseWindowedBolt


class SlidingSum(BaseWindowedBolt):
    """Keeps its sum up to date with what has come and what has left, in place of adding all numbers of a window.

    The sum of a new instance is made from the window: attributes of a bolt are only a cache.
    """

    sum = None

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        if self.sum is None:
            self.sum = sum(tup["value"] for tup in window.get())
        else:
            self.sum += sum(tup["value"] for tup in window.get_new())
            self.sum -= sum(tup["value"] for tup in window.get_expired())
        self.collector.emit((self.sum,), anchors=window)

    def declare_output_fields(self, declarer):
        declarer.declare("sum")


class TumblingAverage(BaseWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        sums = window.get()
        self.collector.emit((sum(tup["sum"] for tup in sums) / len(sums),), anchors=window)

    def declare_output_fields(self, declarer):
        declarer.declare("average")


def number(message):
    return (message * 7919 % 1000,)


def wire(spout, sink):
    builder = TopologyBuilder()
    builder.set_spout("integers", spout)
    builder.set_bolt("sums", SlidingSum().with_window(count=30, every=10)).shuffle_grouping("integers")
    builder.set_bolt("averages", TumblingAverage().with_tumbling_window(count=3)).shuffle_grouping("sums")
    builder.set_bolt("out", sink).global_grouping("averages")
    return builder.create_topology("sliding-window")


def topology(conf):
    return wire(GeneratorSpout(["value"], number, count=3000), ParquetSink(conf.get("windows.output", "out-averages")))
