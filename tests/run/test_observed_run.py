"""What a run tells of itself, where no other test sees it."""

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from anchorbolt.engine import LocalCluster, RunHandle, RunStatus
from anchorbolt.observe.observed_run import longest
from tests.engine.jobs import feeder, word_count


def test_a_wait_does_not_begin_anew_when_a_second_one_notices_the_same() -> None:
    assert longest({"the state store": 4.7}, {}) == {"the state store": 4.7}
    assert longest({"the state store": 5.7}, {"the state store": 0.1, "the sink": 2.0}) == {
        "the state store": 5.7,
        "the sink": 2.0,
    }


def test_a_run_ends_and_is_cleaned_up_although_its_end_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: Any) -> None:
        raise ValueError("not written")

    monkeypatch.setattr("anchorbolt.observe.observed_run.end_record", raises)
    conf = {"topology.state.provider": "memory", "topology.metrics.port": 0}
    handle: RunHandle = LocalCluster().submit(word_count(feeder("a b")), conf, until_empty=True)
    assert handle.metrics_address is not None
    place = urlsplit(handle.metrics_address)
    assert handle.await_termination(60)
    assert handle.status is RunStatus.FINISHED
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port), timeout=10)
