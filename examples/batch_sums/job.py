"""An aggregator that acks late: it sums ten readings of a sensor at a time, and acks the ten when it emits their sum.

    python examples/batch_sums/job.py
    anchorbolt run examples/batch_sums/job.py:topology --until-empty

The first command runs in one process, on LocalCluster, and prints the totals; the second runs on Spark, and writes
`out-sums/` below the current directory. `batch_sums.readings` and `batch_sums.output` set number and place.
"""

from collections import Counter

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder

BATCH = 10
SENSORS = ("attic", "cellar", "garden")
READINGS = 100 * BATCH * len(SENSORS)  # whole batches only: a reading without nine others would never be acked


class SumBatches(BaseStatefulBolt):
    """Emits the sum of each ten readings of a sensor, anchored to all ten.

    State: sensor to its batch, which is the readings so far: id to handle and value. By their ids, because a reading
    that timed out comes again, with another handle, and must not count twice.
    """

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.batches = state

    def execute(self, tup):
        sensor = tup["sensor"]
        batch = self.batches.get(sensor, {})
        batch[tup["id"]] = tup.handle, tup["value"]
        if len(batch) < BATCH:
            self.batches.put(sensor, batch)
            return
        handles = [handle for handle, _ in batch.values()]
        self.collector.emit((sensor, sum(value for _, value in batch.values())), anchors=handles)
        self.batches.delete(sensor)
        for handle in handles:
            self.collector.ack(handle)

    def declare_output_fields(self, declarer):
        declarer.declare("sensor", "sum")


def reading(number):
    return number, SENSORS[number % len(SENSORS)], number % 100


def wire(readings, sink):
    builder = TopologyBuilder()
    builder.set_spout("readings", readings)
    builder.set_bolt("sums", SumBatches(), parallelism=2).fields_grouping("readings", "sensor")
    builder.set_bolt("out", sink).global_grouping("sums")
    return builder.create_topology("batch-sums")


def made_up(count, sink):
    return wire(GeneratorSpout(["id", "sensor", "value"], reading, count=count), sink)


def topology(conf):
    return made_up(conf.get("batch_sums.readings", READINGS), ParquetSink(conf.get("batch_sums.output", "out-sums")))


def main():
    from anchorbolt.testing import LocalCluster, TupleCapture

    captured = TupleCapture()
    LocalCluster().submit(made_up(READINGS, captured)).await_termination()
    totals = Counter()
    for sensor, batch_sum in captured.tuples:
        totals[sensor] += batch_sum
    for sensor, total in sorted(totals.items()):
        print(f"{sensor}: {total}")


if __name__ == "__main__":
    main()
