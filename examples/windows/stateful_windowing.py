"""Storm's StatefulWindowingTopology: a running sum of all numbers, in the bolt's state, over sliding windows."""

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseStatefulWindowedBolt


class WindowSum(BaseStatefulWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, window):
        total = self.state.add("sum", sum(tup["value"] for tup in window.get_new()))
        self.collector.emit((total,), anchors=window)

    def declare_output_fields(self, declarer):
        declarer.declare("sum")


def number(message):
    return (message,)


def wire(spout, sink):
    builder = TopologyBuilder()
    builder.set_spout("integers", spout)
    builder.set_bolt("sums", WindowSum().with_window(count=5, every=3)).shuffle_grouping("integers")
    builder.set_bolt("out", sink).global_grouping("sums")
    return builder.create_topology("stateful-windowing")


def topology(conf):
    return wire(GeneratorSpout(["value"], number, count=3000), ParquetSink(conf.get("windows.output", "out-totals")))
