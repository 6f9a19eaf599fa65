"""A run ends, and reports its end, even if cleaning up fails."""

import logging
from unittest.mock import Mock

import pytest

from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.submit.handle import RunStatus
from tests.engine.jobs import feeder, run, word_count


def test_await_termination_returns_although_cleaning_up_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(CheckpointSpout, "close", Mock(side_effect=TypeError("a fault of ours")))
    with caplog.at_level(logging.WARNING, "anchorbolt.engine"):
        assert run(LocalCluster(), word_count(feeder("to be"))).status is RunStatus.FINISHED
    assert "a fault of ours" in caplog.text
