"""Storm's SingleJoinExample: joins two streams by an id; a tuple waits for its partner for a minute, in the state."""

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder


class SingleJoin(BaseStatefulBolt):
    """Storm's bolt keeps what waits in a TimeCacheMap, in memory. Here it is an entry of the state with a TTL."""

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.waiting = state

    def execute(self, tup):
        key, value = tup.values
        source, other = self.waiting.get(key, (tup.source_component, None))
        if source == tup.source_component:
            self.waiting.put(key, (source, value), ttl="1 min")
        else:
            gender, age = (value, other) if source == "ages" else (other, value)
            self.collector.emit((key, gender, age), anchors=tup)
            self.waiting.delete(key)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer):
        declarer.declare("id", "gender", "age")


def gender(message):
    return message, "female" if message % 2 else "male"


def age(message):
    return 999 - message, 20 + (999 - message) % 60


def wire(genders, ages, sink):
    builder = TopologyBuilder()
    builder.set_spout("genders", genders)
    builder.set_spout("ages", ages)
    builder.set_bolt("join", SingleJoin(), 2).fields_grouping("genders", "id").fields_grouping("ages", "id")
    builder.set_bolt("out", sink).global_grouping("join")
    return builder.create_topology("single-join")


def topology(conf):
    genders = GeneratorSpout(["id", "gender"], gender, count=1000)
    ages = GeneratorSpout(["id", "age"], age, count=1000)
    return wire(genders, ages, ParquetSink(conf.get("windows.output", "out-joined")))
