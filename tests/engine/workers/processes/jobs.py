"""Topologies for tests with worker processes: bolts that wait for a test, and a spout that it feeds."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.spouts.generator import GeneratorSpout
from anchorbolt.streams import OutputFieldsDeclarer, TopologyContext, Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.cli.command import wait_until
from tests.engine.jobs import BasicBolt, CountWords, StatefulBolt

WORDS = 97


def word_of(number: int) -> tuple[str]:
    return (f"word-{number % WORDS}",)


def counts_of(messages: int) -> dict[str, int]:
    return dict(Counter(word_of(number)[0] for number in range(messages)))


class Marks:
    """Files by which a test and the bolts in other processes tell each other something."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def path(self, name: str) -> Path:
        return Path(self.folder, name)

    def note(self, name: str, line: object) -> None:
        file = os.open(self.path(name), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)

    def lines(self, name: str) -> list[str]:
        with suppress(FileNotFoundError):
            return self.path(name).read_text().splitlines()
        return []

    def arm(self) -> None:
        """Make the next bolts that hold wait, until `release`."""
        self.path("holding").unlink(missing_ok=True)
        self.path("armed").touch()

    def release(self) -> None:
        self.path("armed").unlink(missing_ok=True)

    def hold(self) -> None:
        """Called by a bolt: wait while the test has armed this."""
        if self.path("armed").exists():
            self.note("holding", os.getpid())
            while self.path("armed").exists():
                time.sleep(0.01)

    def wait_until_held(self) -> int:
        """Wait until a bolt holds; return its process's id."""
        wait_until(lambda: bool(self.lines("holding")), "a bolt that holds", 120)
        return int(self.lines("holding")[0])


class Passes(BasicBolt):
    """Passes words on. Notes its `prepare`; may wait."""

    fields = ("word",)

    def __init__(self, marks: Marks, *, holds: bool = True) -> None:
        self.marks, self.holds = marks, holds

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.marks.note(f"prepared-{context.this_component_id}-{context.this_task_index}", os.getpid())

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if self.holds:
            self.marks.hold()
        collector.emit((tup[0],))


class FedSpout(BaseRichSpout):
    """Emits what a test gives it by `feed`; a failed message again. Its queue is that of the driver's process."""

    stable_message_ids = True
    queues: ClassVar[dict[str, deque[tuple[int, Any]]]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str, fields: Sequence[str] = ("word",)) -> None:
        self.name, self.fields = name, fields
        self.queues[name] = deque()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*self.fields)

    def feed(self, first: int, values: Sequence[tuple[Any, ...]]) -> None:
        self.queues[self.name].extend(enumerate(values, first))

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self._emit, self._pending = collector.emit, dict[int, Any]()

    def next_tuple(self) -> None:
        queue = self.queues[self.name]
        for _ in range(len(queue)):
            number, values = queue.popleft()
            self._pending[number] = values
            self._emit(values, number)

    def ack(self, msg_id: int) -> None:
        del self._pending[msg_id]

    def fail(self, msg_id: int) -> None:
        self.queues[self.name].append((msg_id, self._pending.pop(msg_id)))


def generated(messages: int | None) -> GeneratorSpout:
    return GeneratorSpout(["word"], word_of, count=messages, batch=50)


def counting(spout: Any, marks: Marks, *, tasks: int = 3, name: str = "count", holds: bool = True) -> Topology:
    """Words through a plain bolt to a stateful one, which counts them."""
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("pass", Passes(marks, holds=holds), tasks).shuffle_grouping("words")
    builder.set_bolt("count", CountWords(), tasks).fields_grouping("pass", "word")
    return builder.create_topology(name)


class Total(StatefulBolt):
    """Counts the tuples, slowly."""

    slow_s = 0.0

    def execute(self, tup: Tuple) -> None:
        time.sleep(self.slow_s)
        self.count("all")
        self.collector.ack(tup)


class Nothing(BaseBasicBolt):
    """Does nothing."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None: ...
