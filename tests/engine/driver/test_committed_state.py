"""One key looked up in the committed state of all tasks of a bolt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.engine import RunHandle
from anchorbolt.errors import ConfigError, UnsupportedValue
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import StatefulBolt, finished

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
