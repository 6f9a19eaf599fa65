"""Visits and distinct visitors of the pages of a site: a bolt with a custom state, a sketch in Redis.

    anchorbolt run examples/hyperloglog/job.py:topology --until-empty --conf examples/hyperloglog/conf.yaml

reads `in/` beside this file (lines of a page and a visitor), or the folder `hyperloglog.input`, on Spark.
`python examples/hyperloglog/job.py` runs the same bolt in one process, on LocalCluster, without Spark. Both need a
Redis on this machine, at port 6379, or at the port that `HYPERLOGLOG_PORT` names for the second.
"""

import os
from pathlib import Path

from hyperloglog import HyperLogLogState

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder

TASKS = 2
INPUT = Path(__file__).resolve().parent / "in"


class ParseVisit(BaseBasicBolt):
    def execute(self, tup, collector):
        page, visitor = tup["line"].split()
        collector.emit((page, visitor))

    def declare_output_fields(self, declarer):
        declarer.declare("page", "visitor")


class Visitors(BaseStatefulBolt[HyperLogLogState]):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.sketches = state

    def execute(self, tup):
        self.sketches.add(tup["page"], tup["visitor"])
        self.collector.ack(tup)


def wire(spout):
    builder = TopologyBuilder()
    builder.set_spout("lines", spout)
    builder.set_bolt("visits", ParseVisit(), parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("visitors", Visitors(), parallelism=TASKS).fields_grouping("visits", "page")
    return builder.create_topology("hyperloglog")


def topology(conf):
    source = conf.get("hyperloglog.input", str(INPUT))

    def lines(spark):
        return spark.readStream.option("maxFilesPerTrigger", 1).text(source)

    return wire(StreamSpout(lines, fields=["line"]))


def main():
    from hyperloglog import HyperLogLogProvider, read_pages

    from anchorbolt.testing import FeederSpout, LocalCluster

    port = int(os.environ.get("HYPERLOGLOG_PORT", "6379"))
    batches = [[(line,) for line in file.read_text().splitlines()] for file in sorted(INPUT.glob("*.txt"))]
    conf = {
        "topology.state.provider": "hyperloglog.HyperLogLogProvider",
        "topology.state.provider.config": {"port": port},
        "topology.checkpoint.location": "hyperloglog-checkpoint",
    }
    LocalCluster().submit(wire(FeederSpout(["line"], batches)), conf).await_termination()
    pages = read_pages(HyperLogLogProvider(port=port).connect(), "hyperloglog", TASKS)
    for page, (visits, visitors) in sorted(pages.items()):
        print(f"{page}: {visits} visits by about {visitors} visitors")


if __name__ == "__main__":
    main()
