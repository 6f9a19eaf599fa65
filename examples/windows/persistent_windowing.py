"""Storm's PersistentWindowingTopology: averages of large windows, and of all numbers so far.

Storm keeps a window in memory unless `withPersistence` is called. Here each window is in the state, and is read page by
page.
"""

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseStatefulWindowedBolt


class Averages(BaseStatefulWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, window):
        total = sum(tup["value"] for tup in window.get())
        of_all = self.state.add("sum", total) / self.state.add("count", len(window.get()))
        self.collector.emit((window.end_timestamp, total / len(window.get()), of_all), anchors=window)

    def declare_output_fields(self, declarer):
        declarer.declare("end", "average", "average_of_all")


def reading(message):
    """Return a value and its time: one each ms."""
    return message * 7919 % 1000, message


def wire(spout, sink, length="10 s"):
    builder = TopologyBuilder()
    builder.set_spout("readings", spout)
    averages = Averages().with_tumbling_window(length).with_timestamp_field("at")
    builder.set_bolt("averages", averages).shuffle_grouping("readings")
    builder.set_bolt("out", sink).global_grouping("averages")
    return builder.create_topology("persistent-windowing")


def topology(conf):
    spout = GeneratorSpout(["value", "at"], reading, count=50_000, batch=5000)
    return wire(spout, ParquetSink(conf.get("windows.output", "out-averages")))
