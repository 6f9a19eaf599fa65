"""What holds a run up now, over the REST API: calls that do not return, and what holds the spouts back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import convert

from anchorbolt.engine.sources.throttle import SpoutLoad, Throttle
from anchorbolt.ui import UiServer
from anchorbolt.ui.answers import LongCall, Now, NowOfTopology, RunningWave, Task, Waiting
from anchorbolt.ui.model.live import throttled
from anchorbolt.ui.model.now import readiness
from tests.cli.command import wait_until
from tests.ui.conftest import DEADLINE_S, Client, Count, start
from tests.ui.test_model import RUNNING

HANGS = LongCall(kind="bolt", component="count", task=1, method="execute", seconds=301.3, stack="  File")


@pytest.mark.slow
def test_a_bolt_that_does_not_return_is_named_with_where_it_is(server: UiServer, client: Client) -> None:
    handle = start([("wait",)])
    server.show(handle)
    assert Count.entered.wait(DEADLINE_S)
    answer: Any = {}

    def is_told() -> bool:
        answer.update(client.json("/api/v1/topology/words/now"))
        return bool(answer["longCalls"])

    try:
        wait_until(is_told, "a call that does not return", DEADLINE_S)
    finally:
        Count.leave.set()
    convert(answer, NowOfTopology)
    (call,) = answer["longCalls"]
    assert (call["kind"], call["component"], call["method"]) == ("bolt", "count", "execute")
    assert call["seconds"] >= 2
    assert "Count.leave.wait" in call["stack"]
    assert handle.await_termination(DEADLINE_S)


def test_a_topology_that_is_not_healthy_says_which_bolt_it_waits_for() -> None:
    wave = RunningWave(txid=7, phase="prepare", round=1, seconds=301)
    seen = replace(RUNNING, now=Now(wave=wave, commit_age_secs=301, long_calls=[HANGS]))
    assert readiness(seen)[1].endswith("it waits for bolt 'count', task 1")


def test_a_topology_that_waits_for_its_store_is_ready_for_a_while_and_says_what_it_waits_for() -> None:
    seen = replace(
        RUNNING, now=Now(waiting=[Waiting(waits_for="the state store", seconds=186.2)], commit_age_secs=190.0)
    )
    ready, reason = readiness(seen)
    assert ready
    assert "186 s" in reason
    assert reason.endswith("waits for the state store")
    assert not readiness(replace(seen, max_checkpoint_age_s=180.0))[0]


@pytest.mark.parametrize("by", [None, ("slow", 3)])
def test_what_holds_the_spouts_back_is_told_with_how_much_of_the_last_ten_minutes(by: tuple[str, int] | None) -> None:
    spouts = [SpoutLoad("in", 12, 20, 1), SpoutLoad("other", 3, None, 0)]
    throttle = Throttle("500 tuples waited", by, 7.04, 61.5, 4000.0, spouts)
    told = throttled(throttle, 10_000.0)
    assert told.by == (by and Task(component="slow", task=3))
    assert (told.seconds, told.window_seconds, told.of_seconds) == (7.0, 61.5, 600)
    assert [each.most for each in told.spouts] == [20, None]
