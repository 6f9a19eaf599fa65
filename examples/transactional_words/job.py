"""Words in two databases, each batch exactly once: how often each word occurs, and how many words occur how often.

    anchorbolt run examples/transactional_words/job.py:topology --until-empty

reads the lines of `in/0.txt`, `in/1.txt`, … and keeps `words.sqlite` and `buckets.sqlite`, all in the current
directory. `words.folder`, `words.database` and `buckets.database` name other places.
"""

from collections import Counter
from functools import partial
from pathlib import Path

from lines import LinesSpout
from tables import transaction

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.transactional import BaseTransactionalBolt, Committer, TransactionalMap, TransactionalTopologyBuilder

BUCKET = 10  # bucket 0 has the words that occur 0 to 9 times, bucket 1 those that occur 10 to 19 times
LINES_PER_BATCH = 1000  # of each file


class SplitLine(BaseBasicBolt):
    def execute(self, tup, collector):
        for word in tup["line"].split():
            collector.emit((tup["tx"], word))

    def declare_output_fields(self, declarer):
        declarer.declare("tx", "word")


class UpdateWords(BaseTransactionalBolt, Committer):
    """Keeps of each word `[count, count before its last batch]`, and emits both.

    A batch that is tried again finds its txid in the database. Then the stored pair is the one that the first try
    wrote, so the bolts below get the same tuples again.
    """

    def __init__(self, database):
        self.database = database

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt = collector, attempt
        self.counts = Counter()

    def execute(self, tup):
        self.counts[tup["word"]] += 1

    def finish_batch(self):
        updates = {word: partial(add_to_pair, count) for word, count in self.counts.items()}
        with transaction(self.database) as table:
            pairs = TransactionalMap(table).multi_update(self.attempt.txid, updates)
        for word, (count, before) in pairs.items():
            self.collector.emit((self.attempt, word, count, before))

    def declare_output_fields(self, declarer):
        declarer.declare("tx", "word", "count", "before")


class Bucketize(BaseBasicBolt):
    """Moves a word from the bucket of its count before to the bucket of its count."""

    def execute(self, tup, collector):
        new, old = tup["count"] // BUCKET, tup["before"] // BUCKET
        if tup["before"] == 0:
            collector.emit((tup["tx"], new, 1))
        elif new != old:
            collector.emit((tup["tx"], new, 1))
            collector.emit((tup["tx"], old, -1))

    def declare_output_fields(self, declarer):
        declarer.declare("tx", "bucket", "delta")


class UpdateBuckets(BaseTransactionalBolt):
    """Counts the words in each bucket. It is below a committer, so it finishes in the commit phase."""

    def __init__(self, database):
        self.database = database

    def prepare(self, conf, context, collector, attempt):
        self.attempt = attempt
        self.deltas = Counter()

    def execute(self, tup):
        self.deltas[tup["bucket"]] += tup["delta"]

    def finish_batch(self):
        updates = {bucket: partial(add, delta) for bucket, delta in self.deltas.items()}
        with transaction(self.database) as table:
            TransactionalMap(table).multi_update(self.attempt.txid, updates)


def add_to_pair(number, pair):
    before = pair[0] if pair else 0
    return [before + number, before]


def add(number, value):
    return (value or 0) + number


def wire(spout, words, buckets):
    builder = TransactionalTopologyBuilder("transactional-words", "lines", spout, parallelism=2)
    builder.set_bolt("split", SplitLine(), parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("words", UpdateWords(words), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("bucketize", Bucketize(), parallelism=2).shuffle_grouping("words")
    builder.set_bolt("buckets", UpdateBuckets(buckets), parallelism=2).fields_grouping("bucketize", "bucket")
    return builder.build_topology()


def topology(conf):
    def place(key, default):  # whole paths: a worker's current directory is another one
        return str(Path(conf.get(key, default)).absolute())

    spout = LinesSpout(place("words.folder", "in"), LINES_PER_BATCH)
    return wire(spout, place("words.database", "words.sqlite"), place("buckets.database", "buckets.sqlite"))
