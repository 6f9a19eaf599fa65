"""The REST API of a run, asked over HTTP."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.local.runner import LocalRunner
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui import UiServer
from anchorbolt.ui.answers import LookedUp, Summary, Topology
from anchorbolt.ui.routes import ANSWERED, BASE, description
from tests.ui.conftest import CANARY, CONF, DEADLINE_S, Client, Count, Split, start

WORDS = "/api/v1/topology/words"
PATHS = [
    "/api/v1/topology/summary",
    *(f"{WORDS}{tail}" for tail in ("", "?window=600&sys=1", "/component/count", "/component/lines?window=600")),
    *(
        f"{WORDS}/{tail}"
        for tail in ("graph", "now", "waves", "waves?failed=1", "waves/0", "failures", "configuration")
    ),
    f"{WORDS}/state",
    f"{WORDS}/state/count",
]
LOOKUPS = [f"{WORDS}/state/count?key=a", f"{WORDS}/state/count?key=absent"]  # only of a run


def answer_of(path: str) -> Any:
    """Return the type of an answer."""
    plain = path.partition("?")[0].replace("/words", "/{id}")
    for name in ("count", "lines"):
        plain = plain.replace(f"/component/{name}", "/component/{component}")
        plain = plain.replace(f"/state/{name}", "/state/{component}")
    return LookedUp if "?key=" in path else ANSWERS[plain.replace("/waves/0", "/waves/{txid}")]


ANSWERS = {"/api/v1/topology/summary": Summary} | {BASE + each.path: each.answer for each in ANSWERED}


def test_the_description_has_every_answer_and_what_it_refers_to() -> None:
    described = description()
    assert described["paths"].keys() >= ANSWERS.keys()
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(described)):
        assert described["components"]["schemas"][name]["type"] == "object"
    key = described["paths"][f"{BASE}/state/{{component}}"]["get"]["parameters"][-1]
    assert (key["name"], key["schema"]["maxLength"]) == ("key", 2000)


@pytest.fixture
def shown(ended: RunHandle, server: UiServer) -> RunHandle:
    server.show(ended)
    return ended


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("path", [*PATHS, *LOOKUPS])
def test_every_answer_is_as_the_description_says(client: Client, path: str) -> None:
    convert(client.json(path), answer_of(path))


@pytest.mark.usefixtures("shown")
def test_a_topology_is_shown_under_storms_names(client: Client) -> None:
    (summary,) = client.json("/api/v1/topology/summary")["topologies"]
    assert (summary["id"], summary["name"], summary["status"], summary["tasksTotal"]) == (
        "words",
        "words",
        "FINISHED",
        6,
    )
    topology = client.json(f"{WORDS}?window=600")
    assert topology["windowHint"] == "10m 0s"
    (spout,) = topology["spouts"]
    assert (spout["spoutId"], spout["emitted"], spout["transferred"]) == ("lines", 2, 2)
    bolts = {each["boltId"]: each for each in topology["bolts"]}
    assert (bolts["split"]["executed"], bolts["split"]["emitted"], bolts["count"]["executed"]) == (2, 5, 5)
    assert bolts["count"]["tasks"] == bolts["count"]["executors"] == 3
    assert "ValueError" in bolts["count"]["lastError"]
    assert bolts["count"]["errorLapsedSecs"] >= 0
    stats = {each["window"]: each for each in topology["topologyStats"]}
    assert list(stats) == ["600", "10800", "86400", ":all-time"]
    assert stats[":all-time"]["emitted"] == 7
    assert stats[":all-time"]["transferred"] == 7


def test_workers_that_stay_are_shown_and_there_are_none_without_them(
    shown: RunHandle, server: UiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.json(WORDS)["workers"] == []
    started = time.time() - 3_700
    worker = WorkerFigures(0, "here", 4711, started, 3, 10, 2_000, 7, {1: 500, 2: 70})
    monkeypatch.setattr(LocalRunner, "workers", lambda runner: [worker])
    server.show(shown)
    answer = client.json(f"{WORDS}?window=600")  # no answer of the last second
    (told,) = convert(answer, Topology).workers
    assert (told.slot, told.host, told.pid, told.executors_total) == (0, "here", 4711, 3)
    assert (told.uptime[:4], told.uptime_seconds // 10) == ("1h 1", 370)
    assert (told.buffered_bytes, told.spilled_bytes, told.cached_entries) == (10, 2_000, 7)
    assert (told.sent_bytes, told.sent_bytes_to) == (570, {"1": 500, "2": 70})
    assert answer["workersTotal"] == 1


@pytest.mark.usefixtures("shown")
def test_a_component_has_its_streams_and_errors_under_storms_names(client: Client) -> None:
    split = client.json(f"{WORDS}/component/split")
    assert (split["encodedId"], split["encodedTopologyId"]) == ("split", "words")
    (taken,) = split["inputStats"]
    assert (taken["component"], taken["encodedComponentId"], taken["stream"]) == ("lines", "lines", "default")
    assert (taken["executed"], taken["failed"]) == (2, 0)
    assert taken["executeLatency"] == split["boltStats"][-1]["executeLatency"]
    assert split["outputStats"] == [
        {"stream": "default", "emitted": 5, "transferred": 5, "targets": [{"target": "count", "transferred": 5}]}
    ]
    (error,) = client.json(f"{WORDS}/component/count")["componentErrors"]
    assert set(error) == {"error", "errorTime", "errorLapsedSecs"}


def test_emitted_of_a_stream_is_what_a_bolt_received_that_gets_each_tuple_once(
    server: UiServer, client: Client
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"], [[("a b",)]]))
    builder.set_bolt("all", Split(), 3).all_grouping("lines")
    builder.set_bolt("one", Split(), 2).shuffle_grouping("lines")
    builder.set_bolt("copies", Count()).all_grouping("all")
    handle = LocalCluster().submit(builder.create_topology("words"), CONF)
    assert handle.await_termination(DEADLINE_S)
    server.show(handle)
    (lines,) = client.json(f"{WORDS}/component/lines")["outputStats"]
    assert (lines["emitted"], lines["transferred"]) == (1, 4)
    (copies,) = client.json(f"{WORDS}/component/all")["outputStats"]
    assert copies == {"stream": "default", "transferred": 6, "targets": [{"target": "copies", "transferred": 6}]}


@pytest.mark.usefixtures("shown")
def test_tasks_are_given_page_by_page_with_how_they_differ(client: Client) -> None:
    count = client.json(f"{WORDS}/component/count?sort=executed&count=2&first=1")
    assert (count["executorsTotal"], len(count["executorStats"])) == (3, 2)
    assert sum(count["spread"]["executed"]["bars"]) == 3
    numbers = [each["executed"] for each in client.json(f"{WORDS}/component/count?sort=executed")["executorStats"]]
    assert numbers == sorted(numbers, reverse=True)
    assert sum(numbers) == 5


@pytest.mark.usefixtures("shown")
def test_the_graph_has_the_rate_of_each_stream(client: Client) -> None:
    graph = client.json(f"{WORDS}/graph")
    assert [(each["id"], each["level"]) for each in graph["components"]] == [("lines", 0), ("split", 1), ("count", 2)]
    edges = {(each["source"], each["target"]): each for each in graph["edges"]}
    assert edges["split", "count"]["transferred"] == 5
    assert edges["split", "count"]["grouping"] == "fields(word)"
    assert edges["split", "count"]["perSecond"] > 0


def test_a_chained_bolt_says_to_which_bolt_it_is_chained(server: UiServer, client: Client) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"], [[("a b",)]]))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), 2).local_or_shuffle_grouping("split")
    handle = LocalCluster().submit(builder.create_topology("words"), CONF)
    assert handle.await_termination(DEADLINE_S)
    server.show(handle)
    told = {each["id"]: each.get("chainedTo") for each in client.json(f"{WORDS}/graph")["components"]}
    assert told == {"lines": None, "split": None, "count": "split"}
    assert client.json(f"{WORDS}/component/count")["chainedTo"] == "split"
    assert "chainedTo" not in client.json(f"{WORDS}/component/split")


@pytest.mark.usefixtures("shown")
def test_waves_and_failures_are_shown_newest_first(client: Client) -> None:
    kinds = [(each["kind"], each["txid"]) for each in client.json(f"{WORDS}/waves")["waves"]]
    assert kinds == [("end", 1), ("wave", 1), ("wave", 0), ("start", -1)]
    assert client.json(f"{WORDS}/waves/1")["tasks"]["count"]["tasks"] == 3
    assert [each["txid"] for each in client.json(f"{WORDS}/waves?failed=1")["waves"]] == [1]
    (failed,) = client.json(f"{WORDS}/failures")["rounds"]
    assert (failed["txid"], failed["rounds"]) == (1, 2)


def test_a_wave_that_runs_is_shown_and_the_server_does_not_wait_for_it(server: UiServer, client: Client) -> None:
    assert client.json("/api/v1/topology/summary")["topologies"][0]["status"] == "STARTING"
    assert client.ask("/readyz")[0] == 503
    handle = start([("a",)], [("wait",)])
    server.show(handle)
    assert Count.entered.wait(DEADLINE_S)
    now = client.json(f"{WORDS}/now")
    assert (now["status"], now["txid"], now["wave"]["txid"], now["wave"]["phase"]) == ("ACTIVE", 0, 1, "compute")
    assert client.json("/readyz") == {"ready": True, "reason": "the last commit is recent"}
    Count.leave.set()
    assert handle.await_termination(DEADLINE_S)


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("path", [*PATHS, *LOOKUPS, "/metrics", "/api/v1/openapi.json"])
def test_a_secret_of_the_configuration_is_nowhere_even_if_a_bolt_raises_it(client: Client, path: str) -> None:
    status, _, body = client.ask(path)
    assert status == 200
    assert CANARY.encode() not in body


@pytest.mark.usefixtures("shown")
def test_the_configuration_says_what_is_masked_and_where_keys_come_from(client: Client) -> None:
    keys = {each["key"]: each for each in client.json(f"{WORDS}/configuration")["keys"]}
    assert keys["my.api.token"]["value"] == "***"
    assert keys["my.database"]["value"] == "postgresql://***@db/words"
    assert keys["my.nested"]["value"] == {"login": {"password": "***"}}
    assert keys["topology.message.timeout.secs"]["origin"] == "default"
    assert keys["my.api.token"]["origin"] == "program"


@pytest.mark.usefixtures("shown")
def test_metrics_are_those_of_the_metrics_port(client: Client) -> None:
    status, headers, body = client.ask("/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    assert b'anchorbolt_waves_total{topology="words"} 2.0' in body


@pytest.mark.usefixtures("shown")
def test_a_client_does_not_choose_how_many_texts_of_metrics_are_kept(client: Client) -> None:
    versions = [{"Accept": f"application/openmetrics-text; version=1.0.{number}"} for number in range(3)]
    kinds = {client.ask("/metrics", headers=each)[1]["content-type"] for each in versions}
    assert len(kinds) == 1
    assert kinds.pop().startswith("application/openmetrics-text")


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/topology/other", 404),
        (f"{WORDS}/component/other", 404),
        (f"{WORDS}/waves/99", 404),
        (f"{WORDS}/state/other", 404),
        (f"{WORDS}/state/split", 404),
        (f"{WORDS}/state/count?count=1000", 400),
        (f"{WORDS}/state/split?key=a", 404),
        (f"{WORDS}/state/other?key=a", 404),
        (f'{WORDS}/state/count?key={{"a":1}}', 400),
        (f"{WORDS}/state/count?key={'a' * 2001}", 400),
        ("/api/v1/topology/other/state/count?key=a", 404),
        (f"{WORDS}/waves/x", 404),
        (f"{WORDS}?window=601", 400),
        (f"{WORDS}/component/count?count=1000", 400),
        (f"{WORDS}/component/count?sort=x", 400),
        (f"{WORDS}/waves?last=-1", 400),
    ],
)
def test_what_is_not_there_is_refused_with_a_reason(client: Client, path: str, status: int) -> None:
    found, headers, body = client.ask(path)
    assert found == status
    assert headers["content-type"] == "application/json"
    assert b"errorMessage" in body


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_headers(server: UiServer) -> None:
    # Only of such a socket asyncio turns off Nagle's algorithm, which costs 40 ms an answer on a kept connection.
    assert server._server._socket.proto == socket.IPPROTO_TCP


class Name(str):
    """What libraries of templates and enums give for a text."""


def test_names_and_settings_of_subclasses_are_shown_as_plain_ones(server: UiServer, client: Client) -> None:
    builder = TopologyBuilder()
    builder.set_spout(Name("lines"), FeederSpout(["line"], [[("a b",)]]))
    builder.set_bolt(Name("split"), Split()).shuffle_grouping(Name("lines"))
    builder.set_bolt("count", Count()).fields_grouping(Name("split"), "word")
    conf = {**CONF, "my.rate": np.float64(0.5), Name("my.key"): Name("mine")}
    handle = LocalCluster().submit(builder.create_topology(Name("words")), conf)
    assert handle.await_termination(DEADLINE_S)
    assert handle.status.value == "FINISHED"
    server.show(handle)
    for path in PATHS:
        convert(client.json(path), answer_of(path))
    keys = {each["key"]: each["value"] for each in client.json(f"{WORDS}/configuration")["keys"]}
    assert (keys["my.rate"], keys["my.key"]) == (0.5, "mine")
