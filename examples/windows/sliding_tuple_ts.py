"""Storm's SlidingTupleTsTopology: sums over 5 seconds of the tuples' own times, every 3 seconds."""

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import BaseWindowedBolt


class Sum(BaseWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        total = sum(tup["value"] for tup in window.get())
        self.collector.emit((window.start_timestamp, window.end_timestamp, total), anchors=window)

    def declare_output_fields(self, declarer):
        declarer.declare("start", "end", "sum")


def reading(message):
    """Return a value and its time: one each 100 ms, most of them up to 2 s before the time, one of 97 a minute."""
    at = 100 * message - message * 7919 % 2000
    return message % 10, at - (60_000 if message % 97 == 96 else 0)


def wire(spout, sink, late):
    builder = TopologyBuilder()
    builder.set_spout("readings", spout)
    sums = Sum().with_window("5 s", "3 s").with_timestamp_field("ts").with_lag("5 s").with_late_tuple_stream("late")
    builder.set_bolt("sums", sums).shuffle_grouping("readings")
    builder.set_bolt("out", sink).global_grouping("sums")
    builder.set_bolt("late", late).global_grouping("sums", stream="late")
    return builder.create_topology("sliding-tuple-ts")


def topology(conf):
    folder = conf.get("windows.output", "out-sums")
    spout = GeneratorSpout(["value", "ts"], reading, count=3000)
    return wire(spout, ParquetSink(folder), ParquetSink(f"{folder}-late"))
