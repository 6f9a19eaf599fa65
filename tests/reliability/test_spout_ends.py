"""A spout that ends badly: the run ends with its name, and its connections are closed."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from anchorbolt.errors import SpoutError
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, MESSAGES, Count, QueueSpout, RichBolt

CLOSED: list[int] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    CLOSED.clear()


class Ends(QueueSpout):
    def __init__(self, error: BaseException) -> None:
        super().__init__("word")
        self.error = error

    def next_tuple(self) -> None:
        raise self.error

    def close(self) -> None:
        CLOSED.append(1)


def counting(spout: Any, bolt: Any = None, tasks: int = 1) -> Any:
    return chain("ends", {"in": (spout, tasks), "count": (bolt or Count(), "word")})


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ValueError("no")], ids=repr)
def test_whatever_ends_the_thread_of_a_spout_ends_the_run_and_closes_the_spout(error: BaseException) -> None:
    with pytest.raises(SpoutError) as raised:  # of `submit` already, if the spout is fast
        finished(counting(Ends(error)))
    assert (raised.value.component, raised.value.task_index) == ("in", 0)
    assert CLOSED == [1]


class Reports(QueueSpout):
    def next_tuple(self) -> None:
        if MESSAGES:
            self.collector.report_error(ValueError("odd"))
        super().next_tuple()


def test_errors_that_a_spout_reports_are_in_the_report_of_the_wave() -> None:
    MESSAGES.extend((number, ("a",)) for number in range(3))
    handle = finished(counting(Reports("word")))
    assert sum(report.errors_reported for report in handle.reports) == 3


class OwnIds(QueueSpout):
    """Each task emits its own message 0, and emits it again when it fails."""

    stable_message_ids = False

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        self.word = f"task {context.this_task_index}"
        self.emits = 1

    def next_tuple(self) -> None:
        if self.emits:
            self.emits = 0
            self.collector.emit((self.word,), 0)

    def fail(self, msg_id: Any) -> None:
        self.emits = 1

    def ack(self, msg_id: Any) -> None:
        ACKED.append(self.word)


class FailsTwice(RichBolt):
    times: Counter[str] = Counter()  # noqa: RUF012 - shared: a task may have another instance in each wave

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.times[word] += 1
        if self.times[word] <= 2:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def test_the_failures_of_two_tasks_with_ids_of_their_own_are_counted_apart() -> None:
    letters: list[Any] = []
    FailsTwice.times.clear()
    conf = {"topology.dead.letter": lambda found, txid: letters.extend(found), "topology.max.tuple.retries": 3}
    finished(counting(OwnIds("word"), FailsTwice(), tasks=2), conf)
    assert (letters, sorted(ACKED)) == ([], ["task 0", "task 1"])
