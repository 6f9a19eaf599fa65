"""The job with time that is killed: `anchorbolt run tests.crash.timed.job:topology`.

Words with event times are counted. Each word of a wave sets a timer that fires at the end of the wave, one by event
time, and once in its life one that fires three seconds later. Files are waves; the timers by event time cause waves of
their own in between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BasicOutputCollector, OutputCollector, ParquetSink
from anchorbolt.state_backends.timed.timers import Timer, Timers
from anchorbolt.streams import Tuple
from anchorbolt.streams.context import TopologyContext
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import BasicBolt, StatefulBolt, text_spout, write_lines

NAME = "timed"
DELAY_S = 3
LARGE = 3_000
"""Words of a large wave: its commit has several slices."""

_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class Stamp(BasicBolt):
    """Emits the words of a line with the event time that the line begins with."""

    fields = ("word", "at")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        seconds, *words = tup["sentence"].split()
        for word in words:
            collector.emit((word, int(seconds) * 1000))


class TimedCount(StatefulBolt):
    """Counts words, and emits a row for each timer that fires."""

    fields = ("word", "kind", "number")
    event_time = "at"
    lag = "1 s"
    state_ttl = "30 d"

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector

    def init_timers(self, timers: Timers[str]) -> None:
        self.timers = timers

    def execute(self, tup: Tuple) -> None:
        word, at = tup.values
        self.state.put(word, self.state.get(word, 0) + 1)
        if self.state.get(f"brief:{word}", at) != at:
            self.collector.emit((word, "expired entry", at), anchors=tup)
        self.state.put(f"brief:{word}", at, ttl="1 ms")  # the next wave must not see it
        self.timers.set(word, after="0 s", name="now")
        self.timers.set(word, at=at, name=str(at // 1000), clock="event")
        if not self.state.get(f"seen:{word}"):
            self.state.put(f"seen:{word}", 1, ttl="never")
            self.timers.set(word, after=f"{DELAY_S} s", name="once")
            self.timers.set(word, after="1 s", name="cancelled")
        self.timers.cancel(word, "cancelled")
        self.collector.ack(tup)

    def on_timer(self, timer: Timer) -> None:
        is_early = timer.at > (self.timers.now if timer.clock == "processing" else self.timers.watermark or 0)
        self.state.put(f"fired:{timer.key}", self.state.get(f"fired:{timer.key}", 0) + 1)
        kind = f"{timer.name}{' early' if is_early else ''}"
        self.collector.emit((timer.key, kind, self.state.get(timer.key) if timer.name == "now" else 0), anchors=timer)


def topology(conf: Mapping[str, Any]) -> Topology:
    """Return the job's topology; its folders are in the current directory."""
    builder = TopologyBuilder()
    builder.set_spout("lines", text_spout(Path("in").absolute()))
    builder.set_bolt("stamp", Stamp(), 2).shuffle_grouping("lines")
    builder.set_bolt("count", TimedCount(), 2).fields_grouping("stamp", "word")
    builder.set_bolt("out", ParquetSink("out"), 2).fields_grouping("count", "word")
    return builder.create_topology(NAME)


def write_waves(folder: Path, waves: int, large: int | None = None) -> list[list[str]]:
    """Write the input of so many waves below `folder`, one of them large, and return the words of each."""
    words = []
    for wave in range(waves):
        chosen = [_WORDS[(wave * 3 + number * 5) % len(_WORDS)] for number in range(6 + wave % 5)]
        if wave == large:
            chosen += [f"word{number}" for number in range(LARGE)]
        words.append(chosen)
    lines = [[" ".join((str(n), *wave[at : at + 4])) for at in range(0, len(wave), 4)] for n, wave in enumerate(words)]
    write_lines(folder / "in", lines)
    return words


def expected_rows(waves: Sequence[Sequence[str]]) -> Counter[tuple[str, str, int]]:
    """Return the firings, once all timers by the clock are due: word, timer, and for `now` the count."""
    counts: Counter[str] = Counter()
    rows: Counter[tuple[str, str, int]] = Counter()
    for number, wave in enumerate(waves):
        counts.update(wave)
        for word in set(wave):
            rows[word, "now", counts[word]] += 1
            if number < len(waves) - 1:  # the watermark is a second behind
                rows[word, str(number), 0] += 1
    rows.update((word, "once", 0) for word in counts)
    return rows


def expected_state(waves: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the live entries of the counter then."""
    state: Counter[str] = Counter(word for wave in waves for word in wave)
    fired = Counter(word for word, *_ in expected_rows(waves).elements())
    return {**state, **{f"seen:{word}": 1 for word in state}, **{f"fired:{word}": fired[word] for word in state}}
