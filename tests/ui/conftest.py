"""A topology that runs, its page, and a client that sends what no browser would."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.state_backends import KeyValueState
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui import UiServer

CANARY = "canary-7c1e55a0"
DEADLINE_S = 30.0
TOKEN = "0123456789abcdef-token"


class Client:
    """Sends requests to a server, as they are."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        assert place.hostname is not None
        assert place.port is not None
        self.host, self.port = place.hostname, place.port

    def ask(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str, **more: Any) -> Any:
        status, _, body = self.ask(path, **more)
        assert status == 200, body
        return json.loads(body)


class Split(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["line"].split():
            collector.emit((word,))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")


class Count(BaseStatefulBolt[KeyValueState[str, int]]):
    """Raises once for the word `bad`, with the canary; waits at the word `wait` until it may go on."""

    raised = False
    entered, leave = threading.Event(), threading.Event()

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        if word == "bad" and not Count.raised:
            Count.raised = True
            raise ValueError(f"cannot log in with {CANARY}")
        if word == "wait":
            Count.entered.set()
            assert Count.leave.wait(DEADLINE_S)
        self.counts.put(word, self.counts.get(word, 0) + 1)


CONF = {
    "topology.state.provider": "memory",
    "my.api.token": CANARY,
    "my.database": f"postgresql://user:{CANARY}@db/words",
    "my.nested": {"login": {"password": CANARY}},
}


def start(*waves: list[tuple[str]], until_empty: bool = True) -> RunHandle:
    Count.raised = False
    Count.entered.clear()
    Count.leave.clear()
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"], list(waves)))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), 3).fields_grouping("split", "word")
    return LocalCluster().submit(builder.create_topology("words"), CONF, until_empty=until_empty)


@pytest.fixture
def ended() -> RunHandle:
    """A run of two waves, the second of which needed two rounds."""
    handle = start([("a b a",)], [("c bad",)])
    assert handle.await_termination(DEADLINE_S)
    return handle


@pytest.fixture
def server() -> Iterator[UiServer]:
    made = UiServer("words", port=0)
    yield made
    made.close()


@pytest.fixture
def client(server: UiServer) -> Client:
    return Client(server.address)
