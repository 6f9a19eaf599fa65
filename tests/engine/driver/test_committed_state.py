"""One key in the committed state of all tasks: looked up, and one entry however it is spelt."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.engine import RunHandle
from anchorbolt.errors import CodecMismatch, ConfigError, StateError, UnsupportedValue
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import NO_RETRIES, StatefulBolt, finished, kept_in, one_bolt
from tests.support.keys import KEYS, UTC, identity

TASKS = 4
VALUES: dict[Any, Any] = {"apple": [1, 2], 7: "seven", ("a", 1): {"x": None}, b"\x00\xff": 1.5, None: True}


class Puts(StatefulBolt):
    def execute(self, tup: Any) -> None:
        self.state.put(tup["key"], tup["value"])


class Nothing(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        """It keeps no state."""


def run(grouping: str, rows: list[tuple[Any, Any]], conf: dict[str, Any] | None = None) -> RunHandle:
    builder = TopologyBuilder()
    builder.set_spout("rows", FeederSpout(["key", "value"], [rows]))
    declarer = builder.set_bolt("puts", Puts(), TASKS)
    if grouping == "fields":
        declarer.fields_grouping("rows", "key")
    else:
        declarer.all_grouping("rows")
    builder.set_bolt("nothing", Nothing()).shuffle_grouping("rows")
    return finished(builder.create_topology("lookups"), {"topology.state.provider": "memory"} | (conf or {}))


@pytest.fixture(scope="module")
def handle() -> RunHandle:
    return run("fields", list(VALUES.items()))


@pytest.mark.parametrize("key", VALUES, ids=repr)
def test_a_key_of_each_type_is_found_in_the_task_that_has_it(handle: RunHandle, key: Any) -> None:
    found = handle.lookup("puts", key)
    assert list(found.values()) == [VALUES[key]]
    assert set(found) <= set(range(TASKS))


@pytest.mark.parametrize("key", ["pear", "7", 7.0, 7.5, ("a", 2), ()], ids=repr)
def test_a_key_that_no_task_has_is_not_found(handle: RunHandle, key: Any) -> None:
    assert handle.lookup("puts", key) == {}


def test_a_key_that_several_tasks_have_is_found_in_all_of_them() -> None:
    assert run("all", [("a", 1)]).lookup("puts", "a") == dict.fromkeys(range(TASKS), 1)


def test_a_key_that_cannot_be_one_is_refused(handle: RunHandle) -> None:
    with pytest.raises(UnsupportedValue, match="mutable"):
        handle.lookup("puts", ["a"])


def test_a_bolt_without_state_is_refused_with_the_names_of_those_with_one(handle: RunHandle) -> None:
    for component in ("nothing", "rows", "other"):
        with pytest.raises(ConfigError, match="Its stateful bolts: puts"):
            handle.lookup(component, "apple")


def test_a_value_of_the_users_own_codec_is_decoded_with_it(tmp_path: Path) -> None:
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path), "valueSerializerClass": "json"},
    }
    handle = run("fields", [("a", {"b": [1]})], conf)
    assert list(handle.lookup("puts", "a").values()) == [{"b": [1]}]


BERLIN = ZoneInfo("Europe/Berlin")
FIRST = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
CLASSES: list[list[Any]] = [
    [0.0, -0.0],
    [float("nan"), -float("nan")],
    [Decimal("1.0"), Decimal("1.00"), Decimal(1)],
    [Decimal(0), Decimal("-0"), Decimal("0E+5")],
    [Decimal("NaN"), Decimal("sNaN")],
    [FIRST, FIRST.astimezone(UTC)],
    [FIRST.replace(fold=1), FIRST.replace(fold=1).astimezone(UTC)],
    [dt.time(1, tzinfo=UTC), dt.time(2, tzinfo=dt.timezone(dt.timedelta(hours=1)))],
    [("a", 0.0, Decimal("2.0")), ("a", -0.0, Decimal("2"))],
    *[[key] for key in (1, 1.0, True, "1", b"1", ("x", 1), ("x", True), ("x", 1.0), ("x", Decimal(1)), 0, False)],
]


def count(waves: list[list[Any]], tasks: int, conf: dict[str, Any], grouping: str = "fields") -> RunHandle:
    spout = FeederSpout(["key"], [[(key,) for key in wave] for wave in waves])
    if grouping == "fields":
        return finished(one_bolt(StatefulBolt(), spout, tasks, id="count", name="keys"), conf | NO_RETRIES)
    builder = TopologyBuilder()
    builder.set_spout("keys", spout)
    builder.set_bolt("count", StatefulBolt(), tasks).all_grouping("keys")
    return finished(builder.create_topology("keys"), conf | NO_RETRIES)


def counts(handle: RunHandle) -> list[tuple[Any, int]]:
    return [(identity(key), number) for key, number in handle.state_items("count")]


def test_spellings_are_one_entry_after_waves_and_a_restart(tmp_path: Path) -> None:
    conf = kept_in(tmp_path)
    keys = [key for each in CLASSES for key in each]
    count([keys[::2], keys[1::2]], 3, conf)
    found = counts(count([keys, keys[::-1]], 3, conf))
    assert sorted(found, key=repr) == sorted(((identity(each[0]), 3 * len(each)) for each in CLASSES), key=repr)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(KEYS, max_size=6), min_size=1, max_size=3), st.integers(1, 3))
def test_random_keys_are_counted_by_what_they_are(waves: list[list[Any]], tasks: int) -> None:
    handle = count(waves, tasks, {"topology.state.provider": "memory"})
    found = counts(handle)
    assert sorted(found, key=repr) == sorted(Counter(identity(key) for wave in waves for key in wave).items(), key=repr)


def test_a_key_in_two_tasks_is_told_as_that() -> None:
    memory = {"topology.state.provider": "memory"}
    with pytest.raises(StateError, match=r"several tasks: 0, 1"):
        count([["apple"]], 2, memory, "all").state("count")
    with pytest.raises(StateError, match="different keys"):
        count([[1, True]], 2, memory).state("count")


def test_a_job_goes_on_with_older_namespaces(tmp_path: Path) -> None:
    conf = kept_in(tmp_path)
    count([["a", 7, b"x"]], 2, conf)
    for file in (tmp_path / "state").rglob("*count-*"):
        with closing(sqlite3.connect(file)) as opened, opened:
            opened.execute("UPDATE metadata SET codec = 'keys msgpack/1, values msgpack/1'")
    handle = count([["a", 7, b"x", "new"]], 2, conf)
    assert handle.state("count") == {"a": 2, 7: 2, b"x": 2, "new": 1}
    with pytest.raises(CodecMismatch):
        handle.lookup("count", 0.0)
    with pytest.raises(CodecMismatch, match="keys:count-1"):
        count([[Decimal("1.0")]], 2, conf)
