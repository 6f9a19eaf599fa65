"""The global count of Storm's documentation: how many entries Redis streams have had, each batch exactly once.

    anchorbolt run examples/global_count/job.py:topology --until-empty
    anchorbolt run examples/global_count/job.py:stateful_topology --until-empty

read the streams `sentences-0` and `sentences-1` of a Redis at port 6379 of this machine. The first one keeps the count
in the key `global-count` of that Redis, the second one in the state of a bolt. `redis.host` and `redis.port` name
another Redis.
"""

import json
from contextlib import closing

import redis

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.transactional import (
    BaseBatchBolt,
    BaseTransactionalBolt,
    Committer,
    RedisTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionalValue,
    update_transactional,
)

STREAMS = ["sentences-0", "sentences-1"]
ENTRIES_PER_BATCH = 100  # of each stream
KEY = "global-count"


class BatchCount(BaseBatchBolt):
    """Counts its share of a batch."""

    def prepare(self, conf, context, collector, id):
        self.collector, self.id, self.count = collector, id, 0

    def execute(self, tup):
        self.count += 1

    def finish_batch(self):
        self.collector.emit((self.id, self.count))

    def declare_output_fields(self, declarer):
        declarer.declare("id", "count")


class UpdateGlobalCount(BaseTransactionalBolt, Committer):
    """Adds the counts of a batch to the value in Redis, in the commit phase.

    It connects in `finish_batch`: so it can be pickled between the phases, and only its sum is kept, not its tuples.
    """

    def __init__(self, host, port):
        self.host, self.port = host, port

    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.sum = attempt, 0

    def execute(self, tup):
        self.sum += tup["count"]

    def finish_batch(self):
        with closing(redis.Redis(self.host, self.port)) as client:
            client.transaction(self.update, KEY)

    def update(self, pipeline):
        """Called again if the value changes between the read and the write."""
        text = pipeline.get(KEY)
        stored = None if text is None else TransactionalValue.decode(json.loads(text))
        value = update_transactional(stored, self.attempt.txid, lambda count: (count or 0) + self.sum)
        pipeline.multi()
        pipeline.set(KEY, json.dumps(value.encode()))


class CountInState(BaseStatefulBolt, Committer):
    """Keeps the count in its state, which is committed together with the batch: there is no txid to compare."""

    def prepare(self, conf, context, collector):
        pass

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put("count", self.state.get("count", 0) + tup["count"])


def wire(id, spout, committer):
    builder = TransactionalTopologyBuilder(id, "sentences", spout, parallelism=2)
    builder.set_bolt("partial-count", BatchCount(), parallelism=3).none_grouping("sentences")
    builder.set_bolt("sum", committer).global_grouping("partial-count")
    return builder.build_topology()


def place(conf):
    return {"host": conf.get("redis.host", "localhost"), "port": conf.get("redis.port", 6379)}


def spout(conf):
    return RedisTransactionalSpout(STREAMS, ["text"], take=ENTRIES_PER_BATCH, **place(conf))


def topology(conf):
    return wire("global-count", spout(conf), UpdateGlobalCount(**place(conf)))


def stateful_topology(conf):
    return wire("global-count-in-state", spout(conf), CountInState())
