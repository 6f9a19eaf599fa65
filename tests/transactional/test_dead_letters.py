"""Batches that fail for good are left out as dead letters, which are shown, and cannot be replayed."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.cli.main import app
from anchorbolt.errors import SpoutError
from anchorbolt.spouts.transactional import BatchSpout
from anchorbolt.testing import LocalCluster
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import (
    Committer,
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    PartitionedCoordinator,
    TransactionalTopologyBuilder,
)

WORDS = {0: [("a",), ("poison",), ("b",)]}


class Count(BaseStatefulBolt[Any], Committer):
    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        if tup["word"] == "poison":
            raise ValueError("poison")
        self.state.put("words", [*self.state.get("words", []), tup["word"]])


def count_with(spout: BatchSpout) -> Topology:
    builder = TransactionalTopologyBuilder("left-out", "words", spout)
    builder.set_bolt("count", Count()).global_grouping("words")
    return builder.build_topology()


def conf_of(folder: Path) -> dict[str, Any]:
    return {"topology.dead.letter": str(folder), "topology.max.batch.retries": 1}


def test_a_batch_that_fails_for_good_is_left_out_and_shown_and_not_replayed(tmp_path: Path) -> None:
    handle = LocalCluster().submit(count_with(MemoryTransactionalSpout(WORDS, ["word"], 1)), conf_of(tmp_path))
    assert handle.await_termination(30)
    assert handle.state("count") == {"words": ["a", "b"]}
    [file] = tmp_path.iterdir()
    letter = json.loads(file.read_text())
    assert (letter["txid"], letter["values"], letter["tries"]) == (2, [2, {"0": [1, 1]}], 2)
    shown = CliRunner().invoke(app, ["dead-letters", "list", str(tmp_path)])
    assert "words batch with metadata {0: [1, 1]}" in shown.output
    refused = CliRunner().invoke(app, ["dead-letters", "replay", str(tmp_path)])
    assert refused.exit_code == 2
    assert list(tmp_path.iterdir()) == [file]


def test_of_an_opaque_spout_the_last_try_at_the_batch_is_left_out(tmp_path: Path) -> None:
    handle = LocalCluster().submit(count_with(OpaqueMemoryTransactionalSpout(WORDS, ["word"], 1)), conf_of(tmp_path))
    assert handle.await_termination(30)
    assert handle.state("count") == {"words": ["a", "b"]}
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text())["values"] == [2, {"0": [1, 1]}]


class BreakingCoordinator(PartitionedCoordinator):
    """Has one batch, and raises when it is asked for another one."""

    def after(self, last_metadata: Any) -> None:
        self.is_first = last_metadata is None

    def is_ready(self) -> bool:
        if not self.is_first:
            raise OSError("the source is away")
        return True

    def number_of_partitions(self) -> int:
        return 1


class BreakingSpout(MemoryTransactionalSpout):
    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return BreakingCoordinator()


def test_a_coordinator_that_raises_ends_the_run_and_no_batch_in_flight_pays_for_it(tmp_path: Path) -> None:
    conf = {**conf_of(tmp_path), "topology.max.spout.pending": 3}
    handle = LocalCluster().submit(count_with(BreakingSpout({0: [("a",)]}, ["word"], 1)), conf)
    with pytest.raises(SpoutError):
        handle.await_termination(30)
    assert handle.state("count") == {"words": ["a"]}
    assert [report.rounds for report in handle.reports] == [1]
    assert list(tmp_path.iterdir()) == []
