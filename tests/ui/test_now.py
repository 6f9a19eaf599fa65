"""What holds a run up now, over the REST API: calls that do not return, and what holds the spouts back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anchorbolt.engine.sources.throttle import SpoutLoad, Throttle
from anchorbolt.engine.task.watchdog import LongCall
from anchorbolt.ui import UiServer
from anchorbolt.ui.model.now import now, readiness
from anchorbolt.ui.model.observation import Now, RunningWave
from anchorbolt.ui.schemas import NOW
from tests.cli.command import wait_until
from tests.ui.conftest import DEADLINE_S, Client, Count, start
from tests.ui.schema_check import problems
from tests.ui.test_model import RUNNING

HANGS = LongCall("bolt", "count", 1, "execute", 301.26, '  File "job.py", line 3, in execute')


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
    assert problems(answer, NOW) == []
    (call,) = answer["longCalls"]
    assert (call["kind"], call["component"], call["method"]) == ("bolt", "count", "execute")
    assert call["seconds"] >= 2
    assert "Count.leave.wait" in call["stack"]
    assert handle.await_termination(DEADLINE_S)


def test_a_topology_that_is_not_healthy_says_which_bolt_it_waits_for() -> None:
    wave = RunningWave(7, "prepare", 1, "", 301)
    seen = replace(RUNNING, now=Now(wave=wave, commit_age_s=301, long_calls=[HANGS]))
    assert readiness(seen)[1].endswith("it waits for bolt 'count', task 1")


def test_a_topology_that_waits_for_its_store_is_ready_for_a_while_and_says_what_it_waits_for() -> None:
    seen = replace(RUNNING, now=Now(waiting={"the state store": 186.2}, commit_age_s=190.0))
    ready, reason = readiness(seen)
    assert ready
    assert "186 s" in reason
    assert reason.endswith("waits for the state store")
    assert not readiness(replace(seen, max_checkpoint_age_s=180.0))[0]


@pytest.mark.parametrize("by", [None, ("slow", 3)])
def test_what_holds_the_spouts_back_is_told_with_how_much_of_the_last_ten_minutes(by: tuple[str, int] | None) -> None:
    spouts = [SpoutLoad("in", 12, 20, 1), SpoutLoad("other", 3, None, 0)]
    throttle = Throttle("500 tuples waited", by, 7.04, 61.5, 4000.0, spouts)
    seen = replace(
        RUNNING,
        uptime_s=10_000.0,
        now=Now(throttled=throttle.reason, throttle=throttle, oldest_message_s=12.34, long_calls=[HANGS] * 30),
    )
    told = now(seen)
    assert [each for each in problems(told, NOW) if not each.endswith("is missing")] == []  # the server adds some
    assert told["throttledBy"] == told["throttle"]["by"] == (by and {"component": "slow", "task": 3})
    assert (told["throttle"]["seconds"], told["throttle"]["windowSeconds"]) == (7.0, 61.5)
    assert told["throttle"]["ofSeconds"] == 600
    assert [each["most"] for each in told["throttle"]["spouts"]] == [20, None]
    assert told["oldestMessageSecs"] == 12.3
    assert len(told["longCalls"]) == 20
