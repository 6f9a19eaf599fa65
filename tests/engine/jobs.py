"""Small topologies that the engines' tests run, and plain Python computations of their results."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anchorbolt.bolts import BaseBasicBolt, BaseRichBolt, BaseStatefulBolt, BasicOutputCollector, OutputCollector
from anchorbolt.spouts import Spout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology

__all__ = ["CountWords", "Scale", "SplitSentence", "Total", "diamond", "diamond_result", "feeder", "word_count"]


class SplitSentence(BaseBasicBolt):
    """Emits the words of a sentence; long ones on a stream of their own, too."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit((word,))
            if len(word) > 3:
                collector.emit((word, len(word)), stream="long")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")
        declarer.declare_stream("long", "word", "length")


class CountWords(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words and emits each new count."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        count = self.counts.get(word, 0) + 1
        self.counts.put(word, count)
        self.collector.emit((word, count), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")


class Scale(BaseRichBolt):
    """A plain bolt between two stateful ones: passes a word's first letter and twice its count on."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["word"][0], 2 * tup["count"]), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("letter", "amount")


class Total(BaseStatefulBolt[KeyValueState[str, list[int]]]):
    """Keeps [how many, sum] by letter, from two inputs: scaled counts, and the long words' lengths."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, list[int]]) -> None:
        self.totals = state

    def execute(self, tup: Tuple) -> None:
        letter = tup["letter"] if tup.source_component == "scale" else tup["word"][0]
        amount = tup["amount"] if tup.source_component == "scale" else 1000 * tup["length"]
        many, total = self.totals.get(letter, [0, 0])
        self.totals.put(letter, [many + 1, total + amount])
        self.collector.ack(tup)

    def state_keys(self, tup: Tuple) -> Iterable[str]:
        return [tup["letter"] if tup.source_component == "scale" else tup["word"][0]]


class FirstLetter(BaseBasicBolt):
    """Groups the long words by their first letter for `Total`."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((tup["word"], tup["length"], tup["word"][0]))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "length", "letter")


def word_count(spout: Spout, *sinks: Any, parallelism: int = 2, name: str = "word-count") -> Topology:
    """The word count, with these sinks behind the counts."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", spout)
    builder.set_bolt("split", SplitSentence(), parallelism=parallelism).shuffle_grouping("sentences")
    builder.set_bolt("count", CountWords(), parallelism=parallelism).fields_grouping("split", "word")
    for number, sink in enumerate(sinks):
        builder.set_bolt(f"sink{number}", sink).global_grouping("count")
    return builder.create_topology(name)


def diamond(
    first: Spout, second: Spout, *, parallelism: Sequence[int] = (2, 3, 2, 2, 2), name: str = "diamond"
) -> Topology:
    """Two spouts, a diamond, two stateful bolts in sequence, and a plain bolt between them.

    first ─┐            ┌─▶ count ─▶ scale ─┐
           ├─▶ split ───┤                   ├─▶ total
    second ┘            └─▶ letters ────────┘
    """
    split, letters, count, scale, total = parallelism
    builder = TopologyBuilder()
    builder.set_spout("first", first)
    builder.set_spout("second", second)
    builder.set_bolt("split", SplitSentence(), split).shuffle_grouping("first").shuffle_grouping("second")
    builder.set_bolt("count", CountWords(), count).fields_grouping("split", "word")
    builder.set_bolt("letters", FirstLetter(), letters).shuffle_grouping("split", stream="long")
    builder.set_bolt("scale", Scale(), scale).shuffle_grouping("count")
    (builder.set_bolt("total", Total(), total).fields_grouping("scale", "letter").fields_grouping("letters", "letter"))
    return builder.create_topology(name)


def diamond_result(sentences: Iterable[str]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """What `count` and `total` of the diamond hold after these sentences, computed plainly."""
    counts: Counter[str] = Counter()
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(letter: str, amount: int) -> None:
        totals[letter] = [totals[letter][0] + 1, totals[letter][1] + amount]

    for sentence in sentences:
        for word in sentence.split():
            counts[word] += 1
            add(word[0], 2 * counts[word])
            if len(word) > 3:
                add(word[0], 1000 * len(word))
    return dict(counts), dict(totals)


def feeder(*batches: Sequence[str]) -> FeederSpout:
    """Return a spout of batches of sentences."""
    return FeederSpout(["sentence"], [[(sentence,) for sentence in batch] for batch in batches])
