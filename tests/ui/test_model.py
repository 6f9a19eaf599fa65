"""The answers as functions of what is known, and how often they are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anchorbolt.config import Secret
from anchorbolt.config.masking import secrets_in
from anchorbolt.observe.web.access import Access
from anchorbolt.testing import ManualClock
from anchorbolt.ui.answers import Now, RunningWave, Waiting
from anchorbolt.ui.cache import Answers, TooManyAnswers
from anchorbolt.ui.model.configuration import masked
from anchorbolt.ui.model.live import starting
from anchorbolt.ui.model.now import readiness
from anchorbolt.ui.model.observation import Observation
from anchorbolt.ui.model.text import pretty_seconds

RUNNING = replace(starting("words", 300.0, 0.0), status="RUNNING")


def wave(seconds: float) -> RunningWave:
    return RunningWave(txid=7, phase="prepare", round=2, last_failure="ValueError: no", seconds=seconds)


@pytest.mark.parametrize(
    ("now", "ready"),
    [
        (Now(commit_age_secs=10_000), True),  # idle: there is nothing to commit
        (Now(commit_age_secs=10_000, wave=wave(1)), True),  # idle until a moment ago
        (Now(commit_age_secs=301, wave=wave(301)), False),
        (Now(commit_age_secs=10_000, waiting=[Waiting(waits_for="the store", seconds=301.0)]), False),
        (Now(commit_age_secs=2, wave=wave(1), waiting=[Waiting(waits_for="the store", seconds=1.0)]), True),
    ],
)
def test_a_topology_is_healthy_unless_something_keeps_it_from_a_commit(now: Now, ready: bool) -> None:
    for status in ("RUNNING", "PAUSED"):
        assert readiness(replace(RUNNING, status=status, now=now))[0] is ready


def test_a_paused_topology_is_healthy_however_long_ago_the_last_commit_was() -> None:
    assert readiness(replace(RUNNING, status="PAUSED", now=Now(commit_age_secs=10_000))) == (True, "paused")


@pytest.mark.parametrize("status", ["STARTING", "STOPPED", "FINISHED", "FAILED", "UNKNOWN"])
def test_a_topology_that_does_not_run_is_not_healthy(status: str) -> None:
    assert readiness(replace(RUNNING, status=status))[0] is False


def test_answers_are_made_once_a_second_however_many_ask() -> None:
    clock, made = ManualClock(), list[str]()

    def observe() -> Observation:
        made.append("observation")
        return RUNNING

    def answer(seen: Observation) -> Any:
        made.append("answer")
        return {"id": seen.topology}

    answers = Answers(observe, clock=clock)
    for _ in range(100):
        assert answers.get("summary", answer) == b'{"id":"words"}'
    assert made == ["observation", "answer"]
    clock.advance(1.0)
    answers.get("summary", answer)
    assert made == ["observation", "answer"] * 2


def test_answers_that_take_long_are_made_less_often() -> None:
    clock, made = ManualClock(), list[int]()

    def slow(seen: Observation) -> Any:
        made.append(1)
        clock.advance(0.5)
        return {}

    answers = Answers(lambda: RUNNING, clock=clock)
    for _ in range(9):
        answers.get("slow", slow)
        clock.advance(1.0)
    assert len(made) == 1
    clock.advance(2.0)
    answers.get("slow", slow)
    assert len(made) == 2


def test_too_many_different_questions_are_refused_until_the_next_second() -> None:
    clock = ManualClock()
    answers = Answers(lambda: RUNNING, clock=clock)
    for number in range(500):
        answers.get(number, lambda seen: 1)
    with pytest.raises(TooManyAnswers):
        answers.get("one more", lambda seen: 1)
    clock.advance(1.0)
    assert answers.get("one more", lambda seen: 1) == b"1"


def test_a_secret_is_removed_from_an_answer_as_json_writes_it() -> None:
    secrets = ['se"cret\\1', "sécret-2"]
    answers = Answers(lambda: RUNNING, secrets)
    assert answers.encoded([f"with {each}!" for each in secrets]) == b'["with ***!","with ***!"]'


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        *(
            (key, "canary-1", "***")
            for key in ("password", "my.apiKey", "aws.access.key", "token", "db.passwd", "auth", "my.tokens")
        ),
        ("my.passwords", {"a": "canary-1"}, "***"),
        ("anything", Secret("canary-1"), "***"),
        ("url", "redis://:canary-1@host:6379/0", "redis://***@host:6379/0"),
        ("jaas", 'username="u" password="canary-1";', 'username="u" password="***";'),
        ("list", [{"secret": "canary-1"}], [{"secret": "***"}]),
        ("passwordEnv", "DB_PASSWORD", "DB_PASSWORD"),
        ("topology.ui.tokenFile", "/run/token", "/run/token"),
        ("topology.message.timeout.secs", 30, 30),
        ("not.a.number", float("nan"), "nan"),
        ("an.object", object(), "of type object"),
    ],
)
def test_a_value_is_shown_without_what_looks_like_a_secret(key: str, value: object, shown: object) -> None:
    assert masked(value, key) == shown


def test_the_secrets_of_a_configuration_are_found_at_any_depth() -> None:
    conf = {"a": Secret("one-secret"), "b": {"password": "two-secret"}, "url": "http://user:three-secret@host"}
    assert sorted(secrets_in(conf)) == ["one-secret", "three-secret", "two-secret"]


def test_a_session_ends_and_the_oldest_makes_room() -> None:
    clock = ManualClock()
    access = Access(host="0.0.0.0", is_loopback=False, token=Secret("x" * 16), clock=clock)
    first = access.new_session()
    assert access.has_token(None, f"anchorbolt_ui={first}")
    sessions = [access.new_session() for _ in range(100)]
    assert not access.has_token(None, f"anchorbolt_ui={first}")
    clock.advance(12 * 3600)
    assert not access.has_token(None, f"anchorbolt_ui={sessions[-1]}")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (600, "10m 0s"), (10_800, "3h 0m 0s"), (86_400, "1d 0h 0m 0s")]
)
def test_durations_are_written_as_storm_writes_them(seconds: float, text: str) -> None:
    assert pretty_seconds(seconds) == text
