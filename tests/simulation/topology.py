"""The topology that is simulated, and what it has to come to, computed without it.

Lines go to two splitters, their words to two counters and to one bolt that remembers the highest mark of each; what the
counters emit goes to two tasks of a Parquet sink. So there are a plain bolt, two stateful ones fed by one stream, a
sink behind them, and several tasks of each kind; in some scenarios, some of the bolts are vectorised. In some a relay
is chained to the splitters, and the sink to the counters. In some there is a bolt with timers, TTLs and event time, see
`timed_topology`. Every execution of a splitter marks its words with numbers of its own, ever higher ones, and the
highest is kept: state and rows that stem from different attempts of it can be told apart.

With a reliable spout the topology has the part that `reliable_topology` describes, beside this one or in its place.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NoReturn

import pyarrow as pa

from anchorbolt.bolts import (
    ArrowOutputCollector,
    BaseArrowBolt,
    BaseBasicBolt,
    BaseStatefulArrowBolt,
    BaseStatefulBolt,
    BasicOutputCollector,
    OutputCollector,
    ParquetSink,
)
from anchorbolt.spouts import StreamSpout
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.simulation.choices import Choices
from tests.simulation.reliable_topology import Relay, add_reliable_part
from tests.simulation.scenarios import Scenario
from tests.simulation.timed_topology import add_timed_part, stamped, words_of

NAME = "simulated"
OUT = "sim://out"
SIZE = "#"
"""Key under which a counter keeps how many words it has; it knows that from a field, too, which must never be stale."""

_WORDS = ("a", "b", "c", "d", "e", "f")

_marks: Iterator[int] = itertools.count(1)


def restart_marks() -> None:
    """Begin to count the marks anew, so that a seed replays exactly."""
    global _marks
    _marks = itertools.count(1)


class Split(BaseBasicBolt):
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in words_of(tup["line"]):
            collector.emit((word, next(_marks)))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "mark")


class Remember(BaseStatefulBolt[KeyValueState[str, Any]]):
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[str, Any]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        word, mark = tup.values
        _, highest = self.state.get(word, (0, 0))
        if mark % 7 == 0:  # sometimes remove the entry first: a tombstone in the stage
            self.state.delete(word)
        self.state.put(word, (0, max(mark, highest)))
        self.collector.ack(tup)


class Count(Remember):
    def init_state(self, state: KeyValueState[str, Any]) -> None:
        super().init_state(state)
        self.words = state.get(SIZE, (0, 0))[0]

    def execute(self, tup: Tuple) -> None:
        word, mark = tup.values
        count, highest = self.state.get(word, (0, 0))
        count, mark = count + 1, max(mark, highest)
        if count == 1:
            self.words += 1
            self.state.put(SIZE, (self.words, 0))
        self.state.put(word, (count, mark))
        self.collector.emit((word, count, mark), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count", "mark")


class ArrowSplit(BaseArrowBolt):
    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        words = [(line, word) for line, text in enumerate(batch["line"].to_pylist()) for word in words_of(text)]
        columns = [[word for _, word in words], [next(_marks) for _ in words]]
        collector.emit_batch(columns, parents=[line for line, _ in words])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(pa.schema([("word", pa.string()), ("mark", pa.int64())]))


class ArrowRemember(BaseStatefulArrowBolt):
    def init_state(self, state: KeyValueState[str, Any]) -> None:
        self.state = state

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        words, marks = batch["word"].to_pylist(), batch["mark"].to_pylist()
        highest = dict(zip(words, self.state.get_array(words, [0, 0]).to_pylist(), strict=True))
        for word, mark in zip(words, marks, strict=True):
            highest[word] = [0, max(mark, highest[word][1])]
        self.state.delete_array([word for word, mark in zip(words, marks, strict=True) if mark % 7 == 0])
        self.state.put_array(list(highest), list(highest.values()))


class ArrowCount(ArrowRemember):
    def init_state(self, state: KeyValueState[str, Any]) -> None:
        super().init_state(state)
        self.words = state.get(SIZE, (0, 0))[0]

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        counts, highest = [], []
        for word, mark in zip(batch["word"].to_pylist(), batch["mark"].to_pylist(), strict=True):
            count, before = self.state.get(word, (0, 0))
            counts.append(count + 1)
            highest.append(max(mark, before))
            if count == 0:
                self.words += 1
                self.state.put(SIZE, (self.words, 0))
            self.state.put(word, (counts[-1], highest[-1]))
        collector.emit_batch([batch["word"], counts, highest], parents=range(batch.num_rows))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(pa.schema([("word", pa.string()), ("count", pa.int64()), ("mark", pa.int64())]))


@lru_cache(maxsize=64)
def simulated_topology(
    scenario: Scenario, spouts: tuple[str, ...] = (), *, parts_tasks: int = 2, has_audit: bool = False
) -> Topology:
    """Return the topology of a scenario, with these rich spouts and so many tasks of their first bolt."""
    builder = TopologyBuilder()
    if scenario.has_stream:
        # Where a driver runs spouts itself, it would run a feeder spout, too.
        runs_spouts = scenario.is_reliable or scenario.is_timed
        lines = StreamSpout(_no_source, ["line"]) if runs_spouts else FeederSpout(["line"])
        _add_lines(builder, lines, scenario.vectorised, chains=scenario.chains)
    if scenario.is_timed:
        add_timed_part(builder, at_once=not scenario.is_limited, chains=scenario.chains)
    if scenario.is_reliable:
        add_reliable_part(builder, scenario, spouts, parts_tasks=parts_tasks, has_audit=has_audit)
    return builder.create_topology(NAME)


def _no_source(spark: Any) -> NoReturn:
    raise AssertionError("a driver of the simulation reads its batches from the world")


def _add_lines(builder: TopologyBuilder, lines: Spout, vectorised: Set[str], *, chains: bool) -> None:
    words = "split"
    builder.set_spout("lines", lines)
    split = ArrowSplit() if "split" in vectorised else Split()
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    if chains:
        words = "relay"
        builder.set_bolt("relay", Relay("word", "mark"), 2).none_grouping("split")
    count = ArrowCount() if "count" in vectorised else Count()
    builder.set_bolt("count", count, 2).fields_grouping(words, "word")
    remember = ArrowRemember() if "remember" in vectorised else Remember()
    builder.set_bolt("remember", remember).global_grouping(words)
    schema = pa.schema([("word", pa.string()), ("count", pa.int64()), ("mark", pa.int64())])
    out = builder.set_bolt("out", ParquetSink(OUT, schema=schema), 2)
    if chains:
        out.local_or_shuffle_grouping("count")
    else:
        out.fields_grouping("count", "word")


def batches_of_lines(choices: Choices) -> list[list[str]]:
    """Return the input of a stream spout."""
    return [
        [" ".join(_WORDS[choices.pick(6)] for _ in range(1 + choices.pick(3))) for _ in range(1 + choices.pick(3))]
        for _ in range(2 + choices.pick(3))
    ]


def batches_with_times(choices: Choices) -> list[list[str]]:
    """Return the input of a stream spout whose lines have event times, some of them late."""
    batches = batches_of_lines(choices)
    return [
        [stamped(line, 10 + 8 * number + (8, 0, 4, 12)[choices.pick(4)]) for line in batch]
        for number, batch in enumerate([*batches, *batches_of_lines(choices)])
    ]


class Expected:
    """What the topology has to come to over these batches of lines; batch n is transaction n."""

    def __init__(self, batches: Sequence[Sequence[str]]) -> None:
        self.words = [Counter(word for line in batch for word in words_of(line)) for batch in batches]
        self._counts: list[Counter[str]] = [Counter()]
        for words in self.words:
            self._counts.append(self._counts[-1] + words)

    def counts(self, txid: int) -> Counter[str]:
        """Return how often each word has occurred up to and including a transaction; -1 is before the first."""
        return self._counts[txid + 1]

    def rows(self, txid: int) -> list[tuple[str, int]]:
        """Return the words and counts that a transaction's rows hold, sorted."""
        before = self.counts(txid - 1)
        return sorted(
            (word, before[word] + number) for word, times in self.words[txid].items() for number in range(1, times + 1)
        )
