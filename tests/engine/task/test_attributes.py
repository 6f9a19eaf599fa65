"""Attributes that tuples change: another instance of the task does not have the change, and a warning says so."""

import functools
import logging
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.task.attributes import AttributeWatch, InitialValues
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence
from anchorbolt.streams import TopologyContext, Tuple
from anchorbolt.testing import FeederSpout, TupleCapture
from tests.engine.jobs import BasicBolt, CountWords, StatefulBolt, chain, finished

WAVES = 12


class CountInAttribute(BasicBolt):
    """Streamparse's word count: its counts are in an attribute."""

    fields = ("word", "count")

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.counts: dict[str, int] = defaultdict(int)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.counts[tup["word"]] += 1
        collector.emit((tup["word"], self.counts[tup["word"]]))


class CountBesideState(CountWords):
    """Counts its tuples in an attribute, beside its state."""

    seen = 0

    def execute(self, tup: Tuple) -> None:
        self.seen += 1
        super().execute(tup)


class Sum(StatefulBolt):
    """Storm's `StatefulSumBolt`: its attribute follows from its state."""

    fields = ("word", "count")

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        self.sum = state.get("sum", 0)

    def execute(self, tup: Tuple) -> None:
        self.sum += 1
        self.state.put("sum", self.sum)
        self.collector.emit((tup["word"], self.sum), anchors=tup)
        self.collector.ack(tup)


def run(bolt: BaseBasicBolt | StatefulBolt, *, seed: int = 0) -> dict[str, int]:
    """Run `WAVES` waves of two words; return the highest count of each."""
    captured = TupleCapture()
    finished(
        chain(
            "attributes",
            {
                "words": FeederSpout(["word"], [[("a",), ("b",)]] * WAVES),
                "count": (bolt, 2, "word"),
                "captured": captured,
            },
        ),
        cluster=LocalCluster(seed=seed),
    )
    highest: dict[str, int] = {}
    for word, count in captured.tuples:
        highest[word] = max(count, highest.get(word, 0))
    return highest


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.WARNING and "self." in record.message]


@pytest.mark.parametrize("seed", range(3))
def test_a_count_in_an_attribute_is_wrong_as_on_spark_and_one_warning_names_it(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    highest = run(CountInAttribute(), seed=seed)
    assert all(count < WAVES for count in highest.values()), highest
    assert run(CountInAttribute(), seed=seed) == highest, "the seed decides"
    warnings = warnings_of(caplog)
    assert len(warnings) == 2, "one for each run"
    assert "'count'" in warnings[0].message
    assert "self.counts" in warnings[0].message
    assert "BaseStatefulBolt" in warnings[0].message


def test_a_stateful_bolt_is_warned_of_an_attribute_that_a_new_instance_does_not_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert set(run(CountBesideState()).values()) == {WAVES}
    [warning] = warnings_of(caplog)
    assert "self.seen" in warning.message


def test_an_attribute_that_follows_from_the_state_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    assert set(run(Sum()).values()) == {WAVES}
    assert not warnings_of(caplog)


class _Client:
    """A connection, or a cache: an object of a class that is no container."""

    def __init__(self) -> None:
        self.calls = 0


class _Bolt:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def changed(bolt: _Bolt, execute: Callable[[Any], object], waves: int = 1) -> list[str]:
    """Return the attributes of a plain bolt that are found changed in the first waves."""
    watch = AttributeWatch(bolt, None)
    found = []
    for txid in range(waves):
        watch.begin(Round(txid, Fence(1, txid)))
        execute(bolt)
        found += watch.end()
    return found


def _set(**attributes: Any) -> Callable[[Any], None]:
    return lambda bolt: vars(bolt).update(attributes)


@functools.lru_cache
def _square(number: int) -> int:
    return number * number


@pytest.mark.parametrize(
    ("value", "execute"),
    [
        (0, _set(value=1)),
        ("", _set(value="text")),
        (Decimal(1), _set(value=Decimal(2))),
        ([], lambda bolt: bolt.value.append(1)),
        ({}, lambda bolt: bolt.value.update(a=1)),
        ({"a": 1}, lambda bolt: bolt.value.update(a=2)),
        ({"a": []}, lambda bolt: bolt.value["a"].append(1)),
        (defaultdict(list), lambda bolt: bolt.value["a"].append(1)),
        (set(), lambda bolt: bolt.value.add(1)),
        (Counter(), lambda bolt: bolt.value.update("a")),
        (OrderedDict(), lambda bolt: bolt.value.update(a=1)),
        (deque([1, 2], maxlen=2), lambda bolt: bolt.value.append(3)),
        (list(range(1000)), lambda bolt: bolt.value.append(object())),
        ((1,), _set(value=(2,))),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_tuples_changed_is_found(value: Any, execute: Callable[[Any], object]) -> None:
    assert changed(_Bolt(value=value), execute) == ["value"]


@pytest.mark.parametrize(
    ("value", "execute"),
    [
        (float("nan"), lambda bolt: None),
        ([], _set(value=[])),
        ([], lambda bolt: (bolt.value.append(1), bolt.value.clear())),
        (_Client(), lambda bolt: setattr(bolt.value, "calls", 1)),
        (_Client(), _set(value=_Client())),
        (_Client(), _set(value=None)),
        (None, _set(value=_Client())),
        (None, _set(value=7)),
        (_square, lambda bolt: bolt.value(3)),
        (threading.Lock(), lambda bolt: bolt.value.acquire()),
        (logging.getLogger(__name__), lambda bolt: bolt.value.setLevel("ERROR")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_attribute_that_holds_the_same_or_is_made_late_or_is_an_object_is_not_reported(
    value: Any, execute: Callable[[Any], object]
) -> None:
    assert changed(_Bolt(value=value), execute) == []


def test_a_value_that_was_made_late_is_reported_once_it_changes() -> None:
    def execute(bolt: Any) -> None:
        bolt.count = getattr(bolt, "count", 0) + 1

    assert changed(_Bolt(), execute, waves=2) == ["count"]


def test_an_instance_is_compared_ever_more_rarely() -> None:
    def execute(bolt: Any) -> None:
        bolt.count += 1

    assert len(changed(_Bolt(count=0), execute, waves=1000)) == 10


class _Hostile(dict[Any, Any]):
    def items(self) -> Any:
        raise RuntimeError("changed while it was iterated over")


def test_a_container_that_cannot_be_read_is_left_alone() -> None:
    assert changed(_Bolt(value=_Hostile()), lambda bolt: bolt.value.update(a=1)) == []


def test_what_a_rolled_back_round_changed_is_not_lost() -> None:
    values = InitialValues()
    first, second = _Bolt(count=0), _Bolt(count=0)
    watch = AttributeWatch(first, values)
    watch.begin(Round(0, Fence(1, 1)))
    vars(first).update(count=3)
    assert watch.end() == []
    again = AttributeWatch(second, values)
    again.begin(Round(0, Fence(1, 3), rolled_back=(1,)))
    assert again.end() == []
    third = AttributeWatch(_Bolt(count=0), values)
    third.begin(Round(1, Fence(1, 5)))
    assert third.end() == ["count"]


_VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.floats() | st.binary() | st.decimals() | st.datetimes(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(_VALUES)
def test_an_attribute_that_no_tuple_changes_is_never_reported(value: Any) -> None:
    assert changed(_Bolt(value=value), lambda bolt: None, waves=3) == []
