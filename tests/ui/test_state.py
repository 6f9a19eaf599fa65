"""The view of the state: its sizes, and a key looked up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.errors import StateUnavailable
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.memory import MemoryStateStorage
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui import UiServer, lookups
from anchorbolt.ui.lookups import Budget
from tests.ui.conftest import CANARY, CONF, DEADLINE_S, Client, Count, start

WORDS = "/api/v1/topology/words"
BASE = "/api/v1/topology/values/state"


def measure(handle: RunHandle) -> None:
    """Wait for the measurement that `show` has begun."""
    handle.observe().state_sizes.close()


def test_sizes_are_shown_by_component_and_by_task(ended: RunHandle, server: UiServer, client: Client) -> None:
    server.show(ended)
    measure(ended)
    shown = client.json(f"{WORDS}/state")
    assert shown["store"] == "the memory of this process"
    assert shown["measuredAgeSecs"] >= 0
    [count] = shown["components"]
    assert (count["component"], count["tasks"], count["keys"]) == ("count", 3, 4)
    assert count["bytes"] > 0
    assert [point["keys"] for point in count["history"]] == [4]
    one = client.json(f"{WORDS}/state/count?count=2")
    assert [each["keys"] for each in one["bySize"]] == sorted((each["keys"] for each in one["bySize"]), reverse=True)
    assert len(one["bySize"]) == 2
    assert sum(one["spread"]["bars"]) == 3
    rest = client.json(f"{WORDS}/state/count?first=2")["bySize"]
    assert sum(each["keys"] for each in one["bySize"] + rest) == 4


def test_a_run_that_starts_has_no_sizes_and_no_keys(client: Client) -> None:
    assert client.json(f"{WORDS}/state")["measuredAgeSecs"] is None
    assert client.ask(f"{WORDS}/state/count?key=a")[0] == 404


def test_a_key_is_looked_up_while_a_wave_hangs(server: UiServer, client: Client) -> None:
    handle = start([("a b a",)], [("a wait",)])
    server.show(handle)
    assert Count.entered.wait(DEADLINE_S)
    found = client.json(f"{WORDS}/state/count?key=a")
    Count.leave.set()
    assert handle.await_termination(DEADLINE_S)
    [value] = found["found"]
    assert (value["value"], value["text"], found["key"], found["keyText"]) == (2, "2", "a", "'a'")
    assert found["tasksAsked"] == found["tasksTotal"] == 3
    assert client.json(f"{WORDS}/state/count?key=a")["found"][0]["value"] == 3


class Custom:
    """A class of the user's, for pickle."""

    unpickled = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return make_custom, ()

    def __repr__(self) -> str:
        return "<Custom\n>"


def make_custom() -> Custom:
    Custom.unpickled += 1
    return Custom()


class Puts(BaseStatefulBolt[KeyValueState[Any, Any]]):
    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        ttl = "1 h" if tup["key"] == "expires" else None
        self.state.put(tup["key"], Custom() if tup["value"] == "custom" else tup["value"], ttl=ttl)


ENTRIES: list[tuple[Any, Any]] = [
    ("apple", {"nested": [1, None, (2, 3)]}),
    ("7", "a text"),
    (7, "a number"),
    (("a", 1), True),
    (b"\x00\xff", b"bytes"),
    (None, 2**60),
    ("long", list(range(20_000))),
    ("longer", b"x" * 2_000_000),
    (CANARY, f"the secret is {CANARY}"),
]


def show(server: UiServer, rows: list[tuple[Any, Any]], **provider: Any) -> RunHandle:
    builder = TopologyBuilder()
    builder.set_spout("rows", FeederSpout(["key", "value"], [rows]))
    builder.set_bolt("puts", Puts(), 3).all_grouping("rows")
    conf = CONF | ({"topology.state.provider.config": provider} if provider else {})
    handle = LocalCluster().submit(builder.create_topology("values"), conf)
    assert handle.await_termination(DEADLINE_S)
    server.show(handle)
    return handle


def test_a_value_that_expires_says_when(server: UiServer, client: Client) -> None:
    begun = int(time.time() * 1000)
    show(server, [("expires", 1), ("stays", 2)])
    for each in client.json(f"{BASE}/puts?key=expires")["found"]:
        assert 0 <= each["expiresAt"] - begun - 3_600_000 < 600_000
    assert ["expiresAt" in each for each in client.json(f"{BASE}/puts?key=stays")["found"]] == [False] * 3


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("apple", {"nested": [1, None, {"$tuple": [2, 3]}]}),
        ('"apple"', {"nested": [1, None, {"$tuple": [2, 3]}]}),
        ('"7"', "a text"),
        ("7", "a number"),
        ('["a", 1]', True),
        ("('a', 1)", True),
        (r"b'\x00\xff'", {"$bytes": "Ynl0ZXM="}),
        ("null", 2**60),
    ],
)
def test_keys_of_each_type_can_be_typed(server: UiServer, client: Client, typed: str, value: Any) -> None:
    show(server, ENTRIES)
    found = client.json(f"{BASE}/puts?key={quote(typed)}")["found"]
    assert [(each["task"], each["value"]) for each in sorted(found, key=lambda each: each["task"])] == [
        (task, value) for task in range(3)
    ]


@pytest.mark.parametrize("typed", ["pear", "8", "true", '["a", 2]', "NaN", "-" * 1999 + "1", "(" * 2000, "\U0001f600"])
def test_a_key_that_is_absent_is_not_found(server: UiServer, client: Client, typed: str) -> None:
    show(server, ENTRIES)
    answer = client.json(f"{BASE}/puts?key={quote(typed)}")
    assert (answer["found"], answer["tasksAsked"]) == ([], 3)


def test_a_long_value_is_shown_in_part_and_a_longer_one_is_not_even_decoded(server: UiServer, client: Client) -> None:
    show(server, ENTRIES)
    for each in client.json(f"{BASE}/puts?key=long")["found"]:
        assert each["text"].startswith("[0, 1, 2,")
        assert each["text"].endswith("…")
        assert len(each["text"]) < 5_000
        assert "value" not in each
    for each in client.json(f"{BASE}/puts?key=longer")["found"]:
        assert each["bytes"] > 2_000_000
        assert each["problem"]
        assert {"value", "text"}.isdisjoint(each)


def test_a_secret_of_the_configuration_is_masked_in_keys_and_values(server: UiServer, client: Client) -> None:
    show(server, ENTRIES)
    status, _, body = client.ask(f"{BASE}/puts?key={CANARY}")
    assert status == 200
    assert CANARY.encode() not in body
    assert b"the secret is ***" in body


def test_pickles_are_unpickled_because_the_configuration_chose_pickle(server: UiServer, client: Client) -> None:
    show(server, [("a", "custom")], valueSerializerClass="pickle")
    before = Custom.unpickled
    found = client.json(f"{BASE}/puts?key=a")["found"]
    assert Custom.unpickled > before
    assert [each["text"] for each in found] == [r"<Custom\n>"] * 3


def test_bytes_that_are_no_value_are_a_problem_and_never_unpickled(server: UiServer, client: Client) -> None:
    handle = show(server, [("a", "custom")], valueSerializerClass="pickle")
    handle.observe().plan.value_codec = type(handle.observe().plan.key_codec)()  # what reads without pickle
    before = Custom.unpickled
    found = client.json(f"{BASE}/puts?key=a")["found"]
    assert ["cannot be decoded" in each["problem"] for each in found] == [True] * 3
    assert Custom.unpickled == before


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Reads of the store hang until the end of the test; each is counted."""
    begun, leave = threading.Semaphore(0), threading.Event()

    def get_many(self: Any, keys: Any, *more: Any) -> list[None]:
        begun.release()
        leave.wait(DEADLINE_S)
        return [None for _ in keys]

    monkeypatch.setattr(MemoryStateStorage, "get_many", get_many)
    yield begun
    leave.set()


def test_lookups_that_hang_are_given_up_and_no_more_begin_and_the_page_answers(
    ended: RunHandle, server: UiServer, client: Client, stuck: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.show(ended)
    monkeypatch.setattr(lookups, "_DEADLINE_S", 0.1)
    assert [client.ask(f"{WORDS}/state/count?key={key}")[0] for key in "ab"] == [504, 504]
    assert stuck.acquire(timeout=DEADLINE_S)
    assert stuck.acquire(timeout=DEADLINE_S)
    assert client.ask(f"{WORDS}/state/count?key=c")[0] == 503
    assert client.ask(f"{WORDS}/state")[0] == 200


def test_a_store_that_is_away_is_said_so(
    ended: RunHandle, server: UiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise StateUnavailable(f"the store of {CANARY} is away")

    server.show(ended)
    monkeypatch.setattr(MemoryStateStorage, "get_many", away)
    status, _, body = client.ask(f"{WORDS}/state/count?key=a")
    assert status == 503
    assert b"the store of *** is away" in body


def test_lookups_may_take_five_per_cent_of_the_time_and_some_seconds_at_once() -> None:
    budget = Budget(0.0)
    assert budget.has_left(0.0)
    budget.spend(4.0)
    assert not budget.has_left(19.0)
    assert budget.has_left(21.0)
    budget.spend(1.0)
    assert not budget.has_left(21.0)
    assert budget.has_left(10_000.0)
    budget.spend(3.1)
    assert not budget.has_left(10_001.0)


def test_lookups_that_have_spent_their_time_are_refused(
    ended: RunHandle, server: UiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "_MOST_SAVED_S", 1e-9)
    monkeypatch.setattr(lookups, "_SHARE", 0.0)
    server.show(ended)
    assert [client.ask(f"{WORDS}/state/count?key=a")[0] for _ in range(3)] == [200, 503, 503]


def test_a_lookup_stops_after_some_tasks_that_have_the_key(
    server: UiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(server, ENTRIES)
    monkeypatch.setattr(lookups, "_MOST_FOUND", 2)
    answer = client.json(f"{BASE}/puts?key=apple")
    assert (len(answer["found"]), answer["tasksAsked"], answer["tasksTotal"]) == (2, 2, 3)
