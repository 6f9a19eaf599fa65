"""Small topologies that the engines' tests run, and plain Python computations of their results."""

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BaseBasicBolt, BaseRichBolt, BaseStatefulBolt, BasicOutputCollector, OutputCollector
from anchorbolt.bolts.base import Bolt
from anchorbolt.engine import WaveReport
from anchorbolt.errors import FaultInjected
from anchorbolt.faults.points import FaultPoint, PointReached
from anchorbolt.run.handle import RunHandle
from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.spouts import Spout, StreamSpout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams import OutputFieldsDeclarer, TopologyContext, Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.support.stores import in_workers

NO_RETRIES = {"topology.max.batch.retries": 0}
BEFORE_THE_DECISION = [*FaultPoint][: [*FaultPoint].index(FaultPoint.DECIDED)]


class Fields:
    """A component that declares `fields`."""

    fields: tuple[str, ...] = ()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        if self.fields:
            declarer.declare(*self.fields)


class BasicBolt(Fields, BaseBasicBolt):
    """Declares `fields`."""


class RichBolt(Fields, BaseRichBolt):
    """Keeps its collector, and declares `fields`."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector


class StatefulBolt(Fields, BaseStatefulBolt[KeyValueState[Any, Any]]):
    """Keeps its collector and its state, and counts the tuples by their first value."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.count(tup[0])
        self.collector.ack(tup)

    def count(self, key: Any) -> int:
        count: int = self.state.get(key, 0) + 1
        self.state.put(key, count)
        return count


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


class CountWords(StatefulBolt):
    """Counts words and emits each new count."""

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.collector.emit((word, self.count(word)), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")


class Fill(StatefulBolt):
    """Puts as many values of 1,000 random bytes as the sentence says, at least one."""

    def execute(self, tup: Tuple) -> None:
        for number in range(max(1, int(tup["sentence"]))):
            self.state.put(number, os.urandom(1000))
        self.collector.ack(tup)


class Scale(RichBolt):
    """A plain bolt between two stateful ones: passes a word's first letter and twice its count on."""

    fields = ("letter", "amount")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["word"][0], 2 * tup["count"]), anchors=tup)
        self.collector.ack(tup)


class Total(StatefulBolt):
    """Keeps [how many, sum] by letter, from two inputs: scaled counts, and the long words' lengths."""

    def execute(self, tup: Tuple) -> None:
        [letter] = self.state_keys(tup)
        amount = tup["amount"] if tup.source_component == "scale" else 1000 * tup["length"]
        many, total = self.state.get(letter, [0, 0])
        self.state.put(letter, [many + 1, total + amount])

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
    return counted(spout, CountWords(), *sinks, parallelism=parallelism, name=name)


def counted(spout: Spout, count: Bolt, *sinks: Any, parallelism: int = 2, name: str = "counted") -> Topology:
    """A topology that splits sentences into words, for a bolt `count`, which these sinks take the tuples of."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", spout)
    builder.set_bolt("split", SplitSentence(), parallelism).shuffle_grouping("sentences")
    builder.set_bolt("count", count, parallelism).fields_grouping("split", "word")
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
    builder.set_bolt("total", Total(), total).fields_grouping("scale", "letter").fields_grouping("letters", "letter")
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


def one_bolt(bolt: Bolt, spout: Any, parallelism: int = 1, *, id: str = "bolt", name: str = "one-bolt") -> Topology:
    """A spout, and one bolt that takes its tuples grouped by their first field."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt(id, bolt, parallelism).fields_grouping("spout", spout.fields[0])
    return builder.create_topology(name)


def chain(name: str, components: Mapping[str, Any]) -> Topology:
    """A spout and bolts in a row, by their ids.

    A component may be in a tuple with its parallelism, and a bolt with the field that groups its input; without a
    field, the input is shuffled.
    """
    builder = TopologyBuilder()
    before = ""
    for id, given in components.items():
        component, *options = given if isinstance(given, tuple) else (given,)
        parallelism = next((each for each in options if isinstance(each, int)), 1)
        fields = [each for each in options if isinstance(each, str)]
        if not before:
            builder.set_spout(id, component, parallelism)
        elif fields:
            builder.set_bolt(id, component, parallelism).fields_grouping(before, *fields)
        else:
            builder.set_bolt(id, component, parallelism).shuffle_grouping(before)
        before = id
    return builder.create_topology(name)


def feeder(*batches: str | Sequence[str]) -> FeederSpout:
    """Return a spout of batches of sentences, or of one sentence each."""
    lines = [[batch] if isinstance(batch, str) else batch for batch in batches]
    return FeederSpout(["sentence"], [[(sentence,) for sentence in batch] for batch in lines])


def words(*batches: str) -> FeederSpout:
    """Return a spout of the words of each batch."""
    return FeederSpout(["word"], [[(word,) for word in batch.split()] for batch in batches])


def kept_in(folder: Path) -> dict[str, Any]:
    """Return the settings of a run whose state and checkpoints are below a folder."""
    return {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(folder / "state")},
        "topology.checkpoint.location": str(folder / "checkpoint"),
        **in_workers(),
    }


def finished(
    topology: Topology, conf: Mapping[str, Any] | None = None, *, cluster: LocalCluster | None = None, **options: Any
) -> RunHandle:
    """Run a topology in this process until its source is empty."""
    handle = (cluster or LocalCluster()).submit(topology, conf, **options)
    assert handle.await_termination(60)
    return handle


def run(cluster: LocalCluster, topology: Topology, conf: Mapping[str, Any] | None = None) -> RunHandle:
    """Run a topology until its source is empty."""
    return finished(topology, conf, cluster=cluster)


class Committed:
    """The txids that a run has committed, as the listener of its waves."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.txids: list[int] = []

    def __call__(self, report: WaveReport) -> None:
        with self._changed:
            self.txids.append(report.txid)
            self._changed.notify_all()

    def wait_for(self, waves: int, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.txids) >= waves, timeout)


class Strikes:
    """Raises the first times that a point is reached in a transaction, for one of these components if any are named."""

    def __init__(self, point: FaultPoint, *components: str, txid: int = 1, times: int = 1) -> None:
        self.point = point
        self.left = times
        self._txid = txid
        self._components = components

    def __call__(self, place: PointReached) -> None:
        of_ours = not self._components or place.component in ("", *self._components)
        if place.point is self.point and place.txid == self._txid and of_ours and self.left:
            self.left -= 1
            raise FaultInjected(f"at {place.point.value}")


def write_lines(folder: Path, batches: Iterable[Iterable[str]]) -> Path:
    """Write a file per batch; Spark reads them in the order of their times."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(batches):
        path = folder / f"{number:04d}.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def text_spout(folder: Path) -> StreamSpout:
    """Read a folder of text, a file a wave."""
    place = str(folder)
    return StreamSpout(lambda spark: spark.readStream.option("maxFilesPerTrigger", 1).text(place), ["sentence"])
