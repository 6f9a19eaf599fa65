"""The job that is killed: `anchorbolt run tests.crash.job:topology`, with the folder `in` below the current one.

A plain bolt, two stateful ones fed by it, one of them with all hooks, and a Parquet sink in two tasks; one file is one
wave. In `chained` the sink is chained to the counters, and another bolt to the first one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BasicOutputCollector, ParquetSink
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.custom_states import CountInCustom
from tests.engine.jobs import BasicBolt, CountWords, SplitSentence, text_spout, write_lines

NAME, CUSTOM = "crash", "custom"
TASKS = 2
LARGE = 12_000
"""Words of a large wave: each task's updates take more than one slice in every store."""

_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class Lengths(CountWords):
    """Counts by the length of the word, in hooks of its own, too."""

    def pre_prepare(self, txid: int) -> None:
        self.state.put("prepared", txid)

    def pre_commit(self, txid: int) -> None:
        pass

    def pre_rollback(self) -> None:
        pass

    def execute(self, tup: Tuple) -> None:
        self.count(str(len(tup["word"])))
        self.collector.ack(tup)


class Passes(BasicBolt):
    """Emits each word that it gets."""

    fields = ("word",)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit((tup["word"],))


def topology(conf: Mapping[str, Any]) -> Topology:
    """Return the job's topology; its folders are in the current directory."""
    builder = _splitting()
    builder.set_bolt("count", CountWords(), 2).fields_grouping("split", "word")
    builder.set_bolt("lengths", Lengths()).global_grouping("split")
    builder.set_bolt("out", ParquetSink("out"), 2).fields_grouping("count", "word")
    return builder.create_topology(NAME)


def chained(conf: Mapping[str, Any]) -> Topology:
    """Return the same topology with chained bolts."""
    builder = _splitting()
    builder.set_bolt("pass", Passes(), TASKS).none_grouping("split")
    builder.set_bolt("count", CountWords(), 2).fields_grouping("pass", "word")
    builder.set_bolt("lengths", Lengths()).global_grouping("pass")
    builder.set_bolt("out", ParquetSink("out"), 2).local_or_shuffle_grouping("count")
    return builder.create_topology(NAME)


def custom(conf: Mapping[str, Any]) -> Topology:
    """Return the topology of `test_custom_states`: words counted in states of a user's own, of both kinds."""
    builder = _splitting()
    for name in ("storm", "attempts"):
        builder.set_bolt(name, CountInCustom(), TASKS).fields_grouping("split", "word")
    return builder.create_topology(CUSTOM)


def _splitting() -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("lines", text_spout(Path("in").absolute()))
    builder.set_bolt("split", SplitSentence(), TASKS).shuffle_grouping("lines")
    return builder


def write_waves(folder: Path, waves: int, large: int | None = None) -> list[list[str]]:
    """Write the input of so many waves below `folder`, one of them large, and return the words of each."""
    words = []
    for wave in range(waves):
        chosen = [_WORDS[(wave * 3 + number * 5) % len(_WORDS)] for number in range(12 + wave % 5)]
        if wave == large:
            chosen += [f"word{number}" for number in range(LARGE)]
        words.append(chosen)
    write_lines(folder / "in", [[" ".join(wave[at : at + 4]) for at in range(0, len(wave), 4)] for wave in words])
    return words


def expected_counts(waves: Iterable[Iterable[str]]) -> Counter[str]:
    """Return what the counter's state must hold."""
    return Counter(word for wave in waves for word in wave)


def expected_rows(waves: Iterable[Iterable[str]]) -> list[tuple[int, str, int]]:
    """Return what the sink must hold: the wave, the word, and its count then; sorted."""
    counts: Counter[str] = Counter()
    rows = []
    for txid, wave in enumerate(waves):
        for word in wave:
            counts[word] += 1
            rows.append((txid, word, counts[word]))
    return sorted(rows)
