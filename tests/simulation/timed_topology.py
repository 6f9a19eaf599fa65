"""The part of the simulated topology that has time: a stateful bolt with TTLs, timers and event time, and its own sink.

All that the bolt does to a word depends on how often the word has occurred, and on the largest event time of the word:
the words of a wave may arrive in any order.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, BasicOutputCollector, OutputCollector, ParquetSink
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, Timers
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.topology import TopologyBuilder

TIMED = "timed"
FIRED = "sim://fired"
ODD = "odd"
"""The stream with every second word of a line. The bolt's watermark is that of the slower stream."""

LAG_MS = 3_000
TTL_MS = 20_000
SHORT_TTL_MS = 5_000
_MARK = "@"

# Names of timers, and what an entry's key begins with.
AFTER, BY_EVENT, AGAIN = "", "e", "again"
TOTAL, NUMBER, FIRINGS, FIRINGS_OF_TASK = "all:", "n:", "fired:", "firings"


def words_of(line: str) -> list[str]:
    """Return the words of a line, without its event time."""
    return [word for word in line.split() if not word.startswith(_MARK)]


def stamped(line: str, seconds: int) -> str:
    """Return a line with an event time."""
    return f"{line} {_MARK}{seconds}"


def event_time_of(line: str) -> int:
    """Return the event time of a line, in ms."""
    return int(line.rpartition(_MARK)[2]) * 1000


def delay_ms(word: str, total: int) -> int:
    """Return after which time the timer of a word fires. No two words have timers due at the same time."""
    return (ord(word) * 5 + total * 7) % 23 * 1000 + ord(word) % 8 * 20


def same_delay_ms(word: str, total: int) -> int:
    """Return after which time the timer of a word fires, if timers of several words may be due at the same time."""
    return (ord(word) + total * 7) % 4 * 5_000


class Stamp(BaseBasicBolt):
    """Emits each word of a line with the line's event time."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        at = event_time_of(tup["line"])
        for place, word in enumerate(words_of(tup["line"])):
            if place % 2:
                collector.emit((word, at), stream=ODD)
            else:
                collector.emit((word, at))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "at")
        declarer.declare_stream(ODD, "word", "at")


class Timed(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words, for a while and for ever, and notes which timers fire, in which order."""

    event_time = "at"
    lag = timedelta(milliseconds=LAG_MS)

    def __init__(self, *, at_once: bool) -> None:
        self.delay_ms = same_delay_ms if at_once else delay_ms
        ttl = timedelta(milliseconds=TTL_MS)
        self.state_ttl = None if at_once else ttl
        self.ttl = ttl if at_once else None  # of a put

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.task = context.this_task_index

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.state = state

    def init_timers(self, timers: Timers[str]) -> None:
        self.timers = timers

    def execute(self, tup: Tuple) -> None:
        word, at = tup.values
        total = self._count(TOTAL + word)
        number = self.state.get(NUMBER + word, 0) + 1
        if total % 7 == 3:
            self.state.delete(NUMBER + word)
        else:
            ttls: dict[int, timedelta | str] = {5: "never", 2: timedelta(milliseconds=SHORT_TTL_MS)}
            self.state.put(NUMBER + word, number, ttl=ttls.get(total % 7, self.ttl))
        if total % 6 == 4:
            self.timers.cancel(word)
        else:
            self.timers.set(word, after=timedelta(milliseconds=self.delay_ms(word, total)))
        due = max(at + self.delay_ms(word, 0), self.timers.get(word, BY_EVENT) or 0)
        self.timers.set(word, at=due, name=BY_EVENT, clock="event")
        self.collector.ack(tup)

    def on_timer(self, timer: Timer) -> None:
        word = timer.key
        fired, number = self._count(FIRINGS + word), self.state.get(NUMBER + word, 0)
        row = (self.task, self._count(FIRINGS_OF_TASK), word, timer.name, timer.at, number)
        self.collector.emit(row, anchors=timer)
        if fired % 3 == 0:
            self.timers.set(word, at=timer.at + fired % 4 * 1000 + 1, name=AGAIN)
        if fired % 4 == 1:
            self.timers.cancel(word, BY_EVENT)
        if fired % 5 == 2:
            self.state.put(NUMBER + word, number + 10, ttl=self.ttl)

    def _count(self, key: str) -> int:
        number = self.state.get(key, 0) + 1
        self.state.put(key, number, ttl="never")
        return number

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("task", "number", "word", "name", "at", "value")


def add_timed_part(builder: TopologyBuilder, *, at_once: bool, chains: bool) -> None:
    """Add the bolts to a topology that has the spout `lines`."""
    builder.set_bolt("stamp", Stamp(), 2).shuffle_grouping("lines")
    timed = builder.set_bolt(TIMED, Timed(at_once=at_once), 2)
    timed.fields_grouping("stamp", "word").fields_grouping("stamp", "word", stream=ODD)
    texts = {"word", "name"}
    fields = ("task", "number", "word", "name", "at", "value")
    schema = pa.schema([(name, pa.string() if name in texts else pa.int64()) for name in fields])
    fired = builder.set_bolt("fired", ParquetSink(FIRED, schema=schema), 2)
    if chains:
        fired.local_or_shuffle_grouping(TIMED)
    else:
        fired.fields_grouping(TIMED, "word")
