"""Pause, resume and stop over REST, under Storm's paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.config import Secret
from anchorbolt.engine import RunHandle, RunStatus
from anchorbolt.ui import UiServer
from anchorbolt.ui.routes import description
from tests.ui.conftest import DEADLINE_S, TOKEN, Client, Count, start

WORDS = "/api/v1/topology/words"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ACTIONS = ["activate", "deactivate", "stop"]


@pytest.fixture
def server() -> Iterator[UiServer]:
    """A server that lets who has the token act."""
    made = UiServer("words", port=0, token=Secret(TOKEN), actions=True)
    yield made
    made.close()


@pytest.fixture
def running(server: UiServer) -> Iterator[RunHandle]:
    handle = start([("a",)], until_empty=False)
    server.show(handle)
    yield handle
    Count.leave.set()
    assert handle.stop(DEADLINE_S)


def do(client: Client, action: str) -> Any:
    status, _, body = client.ask(f"{WORDS}/{action}", "POST", BEARER)
    assert status == 200, body
    answer = json.loads(body)
    assert f"/api/v1/topology/{{id}}/{action}" in description()["paths"]
    assert answer == {"topologyOperation": action, "topologyId": "words", "status": "success"}


def statuses(client: Client) -> set[str]:
    """Return what the answers say of the topology's status."""
    (summary,) = client.json("/api/v1/topology/summary")["topologies"]
    component = client.json(f"{WORDS}/component/count")["topologyStatus"]
    return {summary["status"], client.json(WORDS)["status"], client.json(f"{WORDS}/now")["status"], component}


def paused_metric(client: Client) -> str:
    lines = client.ask("/metrics")[2].decode().splitlines()
    return next(line for line in lines if line.startswith("anchorbolt_paused")).split()[-1]


def test_a_run_is_paused_and_resumed_and_each_answer_says_so(client: Client, running: RunHandle) -> None:
    assert statuses(client) == {"ACTIVE"}
    for _ in range(2):
        do(client, "deactivate")  # the second time it is paused already
        assert statuses(client) == {"INACTIVE"}
        assert running.pause(DEADLINE_S)
    assert running.status is RunStatus.RUNNING
    assert client.json("/readyz") == {"ready": True, "reason": "paused"}
    assert paused_metric(client) == "1.0"
    do(client, "activate")
    assert statuses(client) == {"ACTIVE"}
    assert not running.paused


def test_pausing_does_not_wait_for_the_wave(client: Client, server: UiServer) -> None:
    handle = start([("wait",)], until_empty=False)
    server.show(handle)
    assert Count.entered.wait(DEADLINE_S)
    do(client, "deactivate")
    now = client.json(f"{WORDS}/now")
    assert (now["status"], now["wave"]["txid"], now["pausing"]) == ("INACTIVE", 0, True)
    assert client.json("/readyz") == {"ready": True, "reason": "pausing"}
    Count.leave.set()
    assert handle.pause(DEADLINE_S)
    assert not handle.pausing
    assert len(handle.reports) == 1
    do(client, "stop")
    assert handle.await_termination(DEADLINE_S)
    assert statuses(client) == {"STOPPED"}


def test_a_run_that_has_ended_is_not_paused(client: Client, server: UiServer, ended: RunHandle) -> None:
    server.show(ended)
    status, _, body = client.ask(f"{WORDS}/deactivate", "POST", BEARER)
    assert (status, json.loads(body)["error"]) == (409, "409")


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_wants_post_the_token_and_the_pages_own_origin(
    client: Client, running: RunHandle, action: str
) -> None:
    path = f"{WORDS}/{action}"
    assert client.ask(path, "POST")[0] == 401
    assert client.ask(path, "GET", BEARER)[0] == 405
    assert client.ask(path, "POST", {**BEARER, "Origin": "https://evil.example"})[0] == 403
    assert client.ask(path, "POST", {**BEARER, "Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.ask(f"/api/v1/topology/other/{action}", "POST", BEARER)[0] == 404
    assert (running.paused, running.status) == (False, RunStatus.RUNNING)


@pytest.mark.parametrize("action", ACTIONS)
def test_no_action_is_done_on_a_topology_that_starts_or_if_actions_are_off(
    client: Client, ended: RunHandle, action: str
) -> None:
    assert client.ask(f"{WORDS}/{action}", "POST", BEARER)[0] == 403
    closed = UiServer("words", port=0, token=Secret(TOKEN))
    try:
        closed.show(ended)
        assert Client(closed.address).ask(f"{WORDS}/{action}", "POST", BEARER)[0] == 403
    finally:
        closed.close()
