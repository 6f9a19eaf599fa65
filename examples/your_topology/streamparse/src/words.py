import redis
from streamparse import Bolt, Spout


class Sentences(Spout):
    outputs = ["sentence"]

    def initialize(self, conf, context):
        self.lines = open(conf["word_count.input"])
        self.number = 0
        self.pending = {}

    def next_tuple(self):
        line = self.lines.readline()
        if line:
            self.pending[self.number] = line
            self.emit([line], tup_id=self.number)
            self.number += 1

    def ack(self, tup_id):
        del self.pending[tup_id]

    def fail(self, tup_id):
        self.emit([self.pending[tup_id]], tup_id=tup_id)


class SplitSentence(Bolt):
    outputs = ["word"]

    def process(self, tup):
        for word in tup.values[0].split():
            self.emit([word])


class CountWords(Bolt):
    outputs = ["word", "count"]

    def initialize(self, conf, context):
        self.redis = redis.Redis(port=conf["word_count.redis.port"])

    def process(self, tup):
        word = tup.values[0]
        count = self.redis.hincrby("word-count", word, 1)
        self.emit([word, count])


class Output(Bolt):
    def initialize(self, conf, context):
        self.file = open(conf["word_count.output"], "a")

    def process(self, tup):
        word, count = tup.values
        print(word, count, file=self.file, flush=True)
