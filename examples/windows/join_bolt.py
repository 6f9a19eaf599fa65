"""Storm's JoinBoltExample: joins two streams by an id within tumbling windows of 10 seconds."""

from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.windows import JoinBolt


def gender(message):
    return message, "female" if message % 2 else "male", 100 * message


def age(message):
    """Return the age of the person in the other stream's tuple of this number, or of the next one; 0.1 s later."""
    return message + message % 2, 20 + message % 60, 100 * message + 100


def wire(genders, ages, sink):
    builder = TopologyBuilder()
    builder.set_spout("genders", genders)
    builder.set_spout("ages", ages)
    join = JoinBolt("genders", "id").join("ages", "id", "genders").select("genders:id,ages:id,gender,age")
    join.with_tumbling_window("10 s").with_timestamp_field("at")
    builder.set_bolt("join", join, 2).fields_grouping("genders", "id").fields_grouping("ages", "id")
    builder.set_bolt("out", sink).global_grouping("join")
    return builder.create_topology("join-bolt")


def topology(conf):
    genders = GeneratorSpout(["id", "gender", "at"], gender, count=1000)
    ages = GeneratorSpout(["id", "age", "at"], age, count=1000)
    return wire(genders, ages, ParquetSink(conf.get("windows.output", "out-joined")))
