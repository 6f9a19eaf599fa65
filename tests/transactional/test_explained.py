"""`anchorbolt state explain` of a transactional topology."""

import json
from pathlib import Path

from typer.testing import CliRunner

from anchorbolt.cli.main import app
from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.engine.jobs import finished
from tests.faults.test_points_reached import CountWords
from tests.support.stores import settings_of


def test_it_is_explained_with_the_metadata_of_its_last_batch(tmp_path: Path) -> None:
    conf = {**settings_of(tmp_path / "state"), "topology.checkpoint.location": str(tmp_path / "checkpoint")}
    spout = MemoryTransactionalSpout({0: [("a",), ("b",), ("c",)]}, ["word"], take=2)
    builder = TransactionalTopologyBuilder("explained", "words", spout)
    builder.set_committer_bolt("count", CountWords()).global_grouping("words")
    finished(builder.build_topology(), conf)
    (tmp_path / "conf.json").write_text(json.dumps(conf))
    shown = CliRunner().invoke(app, ["state", "explain", "explained", "--conf", str(tmp_path / "conf.json")])
    assert shown.exit_code == 0, shown.output
    assert "batch 2 of its spout 'words' (partitioned) has the metadata {0: [2, 1]}" in " ".join(shown.output.split())
    assert "it continues with txid 3" in shown.output
