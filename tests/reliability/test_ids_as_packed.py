"""A message id is what it is packed to: each is acked once, and one that would not come back equal is refused."""

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import BaseRichBolt
from anchorbolt.engine import RunHandle
from anchorbolt.errors import TopologyError
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.message_ids import AckedMessages, id_key, id_of
from anchorbolt.tracking.redelivery import Known, Redelivery
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, QueueSpout
from tests.support.keys import KEYS, Colour, Level, Pair, Text

EQUAL_IN_A_DICT = [
    ("x", 1),
    ("x", True),
    ("x", 1.0),
    1,
    True,
    1.0,
    0.0,
    -0.0,
    Decimal("1.0"),
    Decimal("1.00"),
    b"a",
    "a",
]


def comes_back(msg_id: Any) -> bool:
    try:
        return bool(hash(msg_id) is not None and unpack(pack(msg_id)) == msg_id)
    except (TypeError, ArithmeticError):  # a signalling NaN
        return False


IDS = (KEYS | st.sampled_from(EQUAL_IN_A_DICT)).filter(lambda each: each is not None and comes_back(each))


class PackedQueue(QueueSpout):
    """Keeps what is pending by the packed ids: a dict takes several ids for one."""

    def next_tuple(self) -> None:
        if self.queue:
            msg_id, values = self.queue.popleft()
            self.pending[pack(msg_id)] = values
            self.collector.emit(values, msg_id)

    def ack(self, msg_id: Any) -> None:
        del self.pending[pack(msg_id)]
        ACKED.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.queue.append((msg_id, self.pending[pack(msg_id)]))
        FAILED.append(msg_id)


class OnlyEmits(QueueSpout):
    def next_tuple(self) -> None:
        if self.queue:
            msg_id, values = self.queue.popleft()
            self.collector.emit(values, msg_id)


def run(msg_ids: list[Any], spout: type[QueueSpout] = PackedQueue) -> RunHandle:
    MESSAGES.clear()
    ACKED.clear()
    MESSAGES.extend((msg_id, ("a",)) for msg_id in msg_ids)
    return finished(chain("ids", {"in": spout("word"), "count": (Count(), "word")}))


@settings(max_examples=25, deadline=None)
@given(st.lists(IDS, max_size=8))
def test_each_id_is_counted_and_acked_once(msg_ids: list[Any]) -> None:
    distinct = {pack(msg_id): msg_id for msg_id in msg_ids}
    handle = run([*distinct.values()])
    assert Counter(map(pack, ACKED)) == Counter(distinct.keys())
    assert dict(handle.state_items("count")) == ({"a": len(distinct)} if distinct else {})


@given(IDS, IDS)
def test_a_key_stands_for_one_id(left: Any, right: Any) -> None:
    assert (id_key(left) == id_key(right)) == (pack(left) == pack(right))
    assert id_of(id_key(left)) == left


@pytest.mark.parametrize("msg_id", [np.int64(5), Level.HIGH, Text("x"), np.str_("x"), Pair(1, "x")], ids=repr)
def test_a_scalar_or_subclass_is_the_id_that_the_record_has(msg_id: Any) -> None:
    assert id_key(msg_id) == id_key(unpack(pack(msg_id)))
    run([msg_id])
    assert msg_id == ACKED[0]


@pytest.mark.parametrize(
    "msg_id",
    [
        math.nan,
        ("x", math.nan),
        Decimal("NaN"),
        Decimal("sNaN"),
        ("x", [1]),
        Colour.RED,
        object(),
        np.datetime64("NaT"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_id_that_does_not_come_back_equal_is_refused_when_it_is_emitted(msg_id: Any) -> None:
    with pytest.raises(TopologyError, match=r"'in'.*cannot be kept"):
        run([msg_id], OnlyEmits)


def test_redeliveries_are_known_by_what_they_are_packed_to() -> None:
    known = Redelivery("in", [("x", 1)], [messages for messages, _ in AckedMessages.parts_of("in", [("y", 1)])])
    assert [known.emit(("x", each), 0) for each in (1, True, 1.0)] == [Known.MOVED, Known.NEW, Known.NEW]
    assert [known.emit(("y", each), 0) for each in (1, True)] == [Known.ACKED, Known.NEW]
    assert known.emit(("x", True), 1) is Known.MOVED
    assert known.emit(("x", 1), 1) is Known.MOVED
    assert [*map(repr, known.take_recalled(0))] == ["('x', True)", "('x', 1)"]
    assert known.emit(("x", 1.0), 1) is Known.MOVED
    assert known.emit(("x", 1.0), 0) is Known.MOVED  # it comes back to the task that emitted it first
    assert known.take_recalled(0) == []
    assert [*map(repr, known.acked)] == ["('y', 1)"]
    known.confirm([("y", True)])
    assert known.emit(("y", 1), 0) is Known.ACKED


class FailsOne(BaseRichBolt):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        (self.collector.fail if tup["word"] == "bad" else self.collector.ack)(tup)


def test_only_the_message_that_fails_becomes_a_dead_letter(tmp_path: Any) -> None:
    ACKED.clear()
    FAILED.clear()
    MESSAGES.clear()
    MESSAGES.extend([(("x", 1), ("bad",)), (("x", True), ("good",)), (("x", 1.0), ("good",))])
    conf = {"topology.dead.letter": str(tmp_path / "letters"), "topology.max.tuple.retries": 1}
    finished(chain("ids", {"in": PackedQueue("word"), "fails": FailsOne()}), conf)
    assert sorted(map(repr, ACKED)) == ["('x', 1)", "('x', 1.0)", "('x', True)"]
    assert [*map(repr, FAILED)] == ["('x', 1)"]
