"""A store that is away or full costs time, and none of a batch's retries; and only so much time."""

from itertools import pairwise
from typing import Any

import pytest

from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.errors import StateUnavailable
from anchorbolt.state_backends.memory import MemoryStateStorage
from anchorbolt.util import retry
from anchorbolt.util.retry import Backoff, RetryPolicy
from tests.cli.command import wait_until
from tests.engine.conftest import FakeTime
from tests.engine.jobs import NO_RETRIES, feeder, word_count


def refuse(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Have the store refuse what is staged, so many times; return how often it is still to refuse."""
    left = [times]
    stage = MemoryStateStorage.stage

    def refuse(storage: MemoryStateStorage, *arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise StateUnavailable("no room")
        return stage(storage, *arguments)

    monkeypatch.setattr(MemoryStateStorage, "stage", refuse)
    return left


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(retry, "_LONGEST_PAUSE_S", 0.002)


def submit(timeout_s: int) -> RunHandle:
    conf = {"topology.message.timeout.secs": timeout_s, "topology.state.checkpoint.interval.ms": 100}
    return LocalCluster().submit(word_count(feeder("a", "a"), parallelism=1), NO_RETRIES | conf)


def test_a_store_without_room_is_waited_for_beyond_the_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    left = refuse(monkeypatch, 20)
    handle = submit(timeout_s=30)
    assert handle.await_termination(60)
    assert left == [0]
    assert handle.state("count") == {"a": 2}


def test_what_a_run_waits_for_is_told_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    left = refuse(monkeypatch, 10**9)
    handle = submit(timeout_s=60)
    wait_until(lambda: handle.observe().waiting != {}, "it waits")
    [(waits_for, seconds)] = handle.observe().waiting.items()
    assert waits_for == StateUnavailable("no room").waits_for
    assert 0 <= seconds < 60
    left[0] = 0
    assert handle.await_termination(60)
    assert handle.observe().waiting == {}


def test_the_wait_ends_with_the_stores_own_error_and_the_state_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, 10**9)
    handle = submit(timeout_s=1)
    with pytest.raises(StateUnavailable, match="no room"):
        handle.await_termination(60)
    assert handle.state("count") == {}


def test_a_call_is_repeated_until_the_time_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "time", FakeTime())
    calls = []

    def fails() -> None:
        calls.append(1)
        raise StateUnavailable("away")

    with pytest.raises(StateUnavailable, match="away"):
        RetryPolicy(20).until_available(fails)
    assert len(calls) > 5
    calls.clear()
    with pytest.raises(StateUnavailable):
        RetryPolicy(0).until_available(fails)
    assert len(calls) == 1


def test_pauses_grow_and_are_told_without_a_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(retry, "_LONGEST_PAUSE_S", 2.0)
    monkeypatch.setattr(retry, "time", clock := FakeTime())
    backoff = Backoff(RetryPolicy(10_000))
    assert backoff.waited_s == 0
    pauses: list[float] = []
    while (pause := backoff.pause_or_give_up(StateUnavailable("away"))) is not None:
        pauses.append(pause)
        assert clock.now == pytest.approx(1000 + sum(pauses[:-1]))
        clock.now += pause
    assert pauses[:5] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6])
    assert set(pauses[5:]) == {2.0}
    assert backoff.waited_s == pytest.approx(sum(pauses))
    assert 8 < sum(pauses) <= 10


def test_a_long_wait_of_all_namespaces_is_said_at_once_and_then_ever_more_rarely_with_the_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retry, "_LONGEST_PAUSE_S", 2.0)
    monkeypatch.setattr(retry, "time", clock := FakeTime())
    policy = RetryPolicy(300_000)
    backoffs = [policy.backoff() for _ in range(6)]
    said: list[float] = []
    while False not in [backoff.sleep_or_give_up(StateUnavailable("gone")) for backoff in backoffs]:
        if len(caplog.messages) > len(said):
            said.append(clock.now - 1000)
    assert clock.now - 1000 > 290
    assert len(said) == 7
    assert all(later >= 1.7 * earlier for earlier, later in pairwise(said[1:]))
    assert caplog.messages[0] == "waiting for the state store: gone"
    assert " of 300 s: gone" in caplog.messages[-1]


def test_the_end_of_a_wait_is_said_once_when_nobody_waits_any_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retry, "time", clock := FakeTime())
    policy = RetryPolicy(30_000)
    first, second, quick = policy.backoff(), policy.backoff(), policy.backoff()
    for backoff in (first, second):
        assert backoff.pause_or_give_up(StateUnavailable("gone"))
    clock.now += 12
    quick.end()
    first.end()
    assert len(caplog.messages) == 1
    second.end()
    first.end()
    assert caplog.messages[1:] == ["no longer waiting for the state store, after 12.0 s"]


def test_a_wait_that_is_given_up_does_not_end_with_an_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retry, "time", FakeTime())

    def fails() -> None:
        raise StateUnavailable("away")

    policy = RetryPolicy(1000)
    with pytest.raises(StateUnavailable):
        policy.until_available(fails)
    assert policy.waiting == {}
    assert policy.until_available(lambda: 7) == 7
    assert caplog.messages
    assert all(message.startswith("waiting for ") for message in caplog.messages)
