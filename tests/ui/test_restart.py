"""What the page of a driver tells of the drivers before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.errors import BoltError
from anchorbolt.files import open_folder
from anchorbolt.observe.history.records import FailedMessage, Holder, Letter, Wave
from anchorbolt.observe.history.segments import HistoryFiles
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui import UiServer
from anchorbolt.ui.answers import Failures, TimedOut, Waves
from anchorbolt.ui.model.history import failures
from anchorbolt.ui.model.live import LiveRun
from tests.cli.command import wait_until
from tests.engine.jobs import StatefulBolt
from tests.ui.conftest import CANARY, DEADLINE_S, Client

WORDS = "/api/v1/topology/words"


class Picky(StatefulBolt):
    def execute(self, tup: Any) -> None:
        if tup["word"] == "never":
            raise ValueError(f"not with {CANARY}")
        super().execute(tup)


def run(place: Path, *waves: str, until_empty: bool = True) -> RunHandle:
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["word"], [[(word,)] for word in waves]))
    builder.set_bolt("picky", Picky()).fields_grouping("in", "word")
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(place / "state")},
        "topology.checkpoint.location": str(place / "checkpoint"),
        "topology.max.batch.retries": 1,
        "my.api.token": CANARY,
    }
    return LocalCluster().submit(builder.create_topology("words"), conf, until_empty=until_empty)


def test_waves_and_failures_of_earlier_drivers_are_shown(server: UiServer, client: Client, tmp_path: Path) -> None:
    with pytest.raises(BoltError):
        run(tmp_path, "a", "b", "never").await_termination(DEADLINE_S)
    handle = run(tmp_path, "c", until_empty=False)
    try:
        server.show(handle)
        wait_until(lambda: len(handle.observe().records) == 6, "the history is read, and the wave has committed")
        waves = client.json(f"{WORDS}/waves")
        convert(waves, Waves)
        assert [(each["kind"], each["generation"], each["txid"]) for each in waves["waves"]] == [
            ("wave", 2, 2),
            ("start", 2, 1),
            ("end", 1, 1),
            ("wave", 1, 1),
            ("wave", 1, 0),
            ("start", 1, -1),
        ]
        assert client.json(f"{WORDS}/waves/1")["generation"] == 1
        answer = client.json(f"{WORDS}/failures")
        convert(answer, Failures)
        [end] = answer["ends"]
        assert (end["txid"], end["error"]) == (1, "BoltError")
        [bolt] = client.json(WORDS)["bolts"]
        assert bolt["executed"] == 1
    finally:
        assert handle.stop(DEADLINE_S)


def test_messages_and_letters_of_earlier_drivers_are_shown_without_this_drivers_secrets(tmp_path: Path) -> None:
    why = f"not with {CANARY}"
    wave = Wave(
        at=1.0,
        generation=0,
        txid=0,
        failed=3,
        messages=[FailedMessage("in", "m1", "picky", 0, why, timed_out=False)],
        dead_letters=4,
        letters=[Letter(1.0, 0, "in", "7", "picky", 0, why, "", 3)],
        timed_out=[Holder("in", "picky", 0, 2)],
    )
    HistoryFiles(open_folder(str(tmp_path / "checkpoint")), 0).write([wave])
    handle = run(tmp_path, "a")
    assert handle.await_termination(DEADLINE_S)
    answer = failures(LiveRun(handle).observe())
    assert CANARY not in str(answer)
    assert [(each.txid, each.message_id, each.reason) for each in answer.messages] == [(0, "m1", "not with ***")]
    assert [each.message for each in answer.letters] == ["7"]
    assert answer.dead_letters == 4
    assert answer.timed_out == [TimedOut(component="picky", task=0, spout="in", messages=2)]
    assert handle.observe().figures.dead_letters == 0
