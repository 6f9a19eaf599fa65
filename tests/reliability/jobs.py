"""A spout for the tests of tracking, which keeps what it is told in this module; small bolts; reads dead letters."""

import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anchorbolt.spouts import BaseRichSpout
from tests.engine.jobs import RichBolt as PlainBolt
from tests.engine.jobs import StatefulBolt

MESSAGES: deque[tuple[Any, Any]] = deque()  # the message ids and values that wait to be emitted
ACKED: list[Any] = []
FAILED: list[Any] = []
CHANGED = threading.Condition()


def forget() -> None:
    for kept in (MESSAGES, ACKED, FAILED):
        kept.clear()


def told(kept: list[Any], msg_id: Any) -> None:
    with CHANGED:
        kept.append(msg_id)
        CHANGED.notify_all()


def wait_for(condition: Any, timeout: float = 30) -> None:
    with CHANGED:
        assert CHANGED.wait_for(condition, timeout)


def note(conf: Mapping[str, Any], name: str) -> int:
    """Count a call in a bolt, which may run in another process; return how many there were before."""
    file = os.open(Path(conf["notes"]) / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(file, b"x")
        return os.fstat(file).st_size - 1
    finally:
        os.close(file)


def noted(conf: Mapping[str, Any], name: str) -> int:
    file = Path(conf["notes"]) / name
    return file.stat().st_size if file.exists() else 0


class QueueSpout(BaseRichSpout):
    """Emits the messages of this module, one a call. With `replay`, a message that fails is emitted again.

    A subclass may replace the `queue`.
    """

    stable_message_ids = True

    def __init__(self, *fields: str, replay: bool = True, tracked: bool = True) -> None:
        self.fields = fields
        self.replay = replay
        self.tracked = tracked

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.queue = collector, MESSAGES
        self.pending: dict[Any, Any] = {}

    def next_tuple(self) -> None:
        if self.queue:
            msg_id, values = self.queue.popleft()
            self.pending[msg_id] = values
            self.collector.emit(values, msg_id if self.tracked else None)

    def ack(self, msg_id: Any) -> None:
        del self.pending[msg_id]
        told(ACKED, msg_id)

    def fail(self, msg_id: Any) -> None:
        if self.replay:
            self.queue.append((msg_id, self.pending[msg_id]))
        told(FAILED, msg_id)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(*self.fields)


class AllAtOnce(QueueSpout):
    """Emits all messages in one call."""

    def next_tuple(self) -> None:
        while self.queue:
            super().next_tuple()


class Count(StatefulBolt):
    """Counts words, and acks."""


class RichBolt(PlainBolt):
    """Keeps its configuration, too."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.conf = conf


class Pairs(StatefulBolt):
    """Joins the first two tuples of an id, keeps the first one's handle in its state, and acks both."""

    fields = ("word", "sum")

    def execute(self, tup: Any) -> None:
        waiting = self.state.get(tup["id"])
        if waiting is None:
            self.state.put(tup["id"], (tup.handle, tup["value"]))
            return
        handle, value = waiting
        self.collector.emit((tup["id"], value + tup["value"]), anchors=[handle, tup])
        self.state.delete(tup["id"])
        self.collector.ack(handle)
        self.collector.ack(tup)


def letters_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
