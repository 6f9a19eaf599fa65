"""A run ends, and reports its end, even if cleaning up fails."""

import logging
from typing import Any

import pytest

from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.local.cluster import LocalCluster
from anchorbolt.engine.submit.handle import RunStatus
from anchorbolt.spouts.feeder import FeederSpout
from tests.engine.jobs import word_count


def test_await_termination_returns_although_cleaning_up_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(spout: Any) -> None:
        raise TypeError("a fault of ours")

    monkeypatch.setattr(CheckpointSpout, "close", fail)
    spout = FeederSpout(["sentence"], [[("to be",)]])
    with caplog.at_level(logging.WARNING, "anchorbolt.engine"):
        handle = LocalCluster().submit(word_count(spout))
        assert handle.await_termination(60), "it hangs"
    assert handle.status is RunStatus.FINISHED
    assert "a fault of ours" in caplog.text
