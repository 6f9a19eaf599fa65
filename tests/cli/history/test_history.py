"""`anchorbolt history` over runs on `LocalCluster`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.cli.main import app
from anchorbolt.engine import LocalCluster
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder


class Picky(BaseStatefulBolt[Any]):
    """Keeps words; raises the first time that it sees `again`, and whenever it sees `never`."""

    raised = False

    def init_state(self, state: Any) -> None:
        self.words = state

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        if word == "never" or (word == "again" and not Picky.raised):
            Picky.raised = True
            raise ValueError(f"not {word}")
        self.words.put(word, 1)

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        Picky.collector = collector


@pytest.fixture
def location(tmp_path: Path) -> str:
    """The checkpoint location of two runs: the first ended well, the second failed."""
    Picky.raised = False
    conf = {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path / "state")},
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
        "topology.max.batch.retries": 1,
    }
    for waves in ([[("a",)], [("again",)], [("b",)]], [[("c",)], [("never",)]]):
        builder = TopologyBuilder()
        builder.set_spout("words", FeederSpout(["word"], waves))
        builder.set_bolt("picky", Picky()).fields_grouping("words", "word")
        handle = LocalCluster().submit(builder.create_topology("history"), conf)
        handle._ended.wait(60)
    return str(tmp_path / "checkpoint")


def printed(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["history", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_waves_starts_and_ends_of_all_drivers_are_there_in_their_order(location: str) -> None:
    records = [json.loads(line) for line in printed(location, "--json")]
    shown = [(record["kind"], record["generation"], record["txid"]) for record in records]
    assert shown == [
        ("start", 1, -1),
        ("wave", 1, 0),
        ("wave", 1, 1),
        ("wave", 1, 2),
        ("end", 1, 2),
        ("start", 2, 2),
        ("wave", 2, 3),
        ("end", 2, 3),
    ]
    [again] = [record for record in records if record.get("rounds") == 2]
    assert (again["txid"], len(again["failures"])) == (1, 1)
    assert "not again" in again["failures"][0]
    assert again["executed"] == {"words": 1, "picky": 1}
    assert again["tasks"]["picky"]["tasks"] == 1
    assert records[-1]["error"] == "BoltError"
    assert "not never" in records[-1]["failure"]


def test_what_failed_and_what_was_slow_can_be_chosen(location: str) -> None:
    failed = printed(location, "--failed")
    assert [("wave 1" in line, "failed at txid 3" in line) for line in failed] == [(True, False), (False, True)]
    assert printed(location, "--slow", "1e9") == []
    assert len(printed(location, "--slow", "0")) == 4
    assert len(printed(location, "--last", "3")) == 3


def test_waves_are_drawn(location: str) -> None:
    lines = printed(location, "--plot")
    assert len(lines) == 9
    assert sum("ms" in line for line in lines) == 4


def test_the_location_comes_from_the_configuration_or_is_asked_for(location: str, tmp_path: Path) -> None:
    assert len(printed("--set", f"topology.checkpoint.location={location}")) == 8
    assert CliRunner().invoke(app, ["history"]).exit_code == 2
    assert CliRunner().invoke(app, ["history", str(tmp_path / "none")]).exit_code == 2


def test_odd_lines_of_a_history_are_passed_over(location: str) -> None:
    file = max(Path(location, "anchorbolt", "history").iterdir())
    wave = b'{"kind":"wave","generation":1,"txid":9,'
    odd = wave + b'"at":1e400}\n' + wave + b'"at":1,"letters":5}\n'
    file.write_bytes(odd + file.read_bytes())
    for more in ((), ("--failed",), ("--plot",), ("--json",)):
        assert printed(location, *more)
    assert len(printed(location)) == 8
