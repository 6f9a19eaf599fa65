"""The id of a transactional topology names its progress: no other topology may use it; and `state explain` of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anchorbolt.bolts import BaseRichBolt
from anchorbolt.cli.main import app
from anchorbolt.errors import TopologyError
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology
from anchorbolt.transactional import (
    MemoryTransactionalSpout,
    OpaqueMemoryTransactionalSpout,
    TransactionalTopologyBuilder,
)
from tests.engine.jobs import chain, finished
from tests.faults.test_points_reached import CountWords
from tests.support.stores import settings_of
from tests.transactional.conftest import Run
from tests.transactional.jobs import Values, batches, decision_log, note, notes, rows, values_topology

SPOUT = MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 1)


def refusal(run: Run, topology: Topology) -> TopologyError:
    with pytest.raises(TopologyError) as raised:
        run(topology)
    return raised.value


class Ack(BaseRichBolt):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.conf = conf

    def execute(self, tup: Any) -> None:
        note(self.conf, "ordinary")

    def declare_output_fields(self, declarer: Any) -> None:
        pass


def ordinary() -> Topology:
    return chain("values", {"spout": FeederSpout(["number"], [[(1,)]]), "ack": Ack()})


def renamed() -> Topology:
    builder = TransactionalTopologyBuilder("values", "another", SPOUT)
    builder.set_bolt("values", Values()).global_grouping("another")
    return builder.build_topology()


def opaque() -> Topology:
    return values_topology(OpaqueMemoryTransactionalSpout({0: rows(range(5))}, ["number"], 1))


@pytest.mark.parametrize("other", [ordinary, renamed, opaque])
def test_an_id_that_is_in_use(run: Run, conf: dict[str, Any], other: Callable[[], Topology]) -> None:
    topology = values_topology(MemoryTransactionalSpout({0: rows(range(3))}, ["number"], 2))
    run(topology)
    before = stored(conf)
    assert "'values'" in refusal(run, other()).message
    assert stored(conf) == before
    assert notes(conf, "ordinary") == []
    more = values_topology(MemoryTransactionalSpout({0: rows(range(5))}, ["number"], 2))
    assert [report.txid for report in run(more).reports] == [3]


def test_an_id_that_an_ordinary_topology_uses(run: Run, conf: dict[str, Any]) -> None:
    run(ordinary())
    before = stored(conf)
    assert "ordinary" in refusal(run, values_topology(SPOUT)).message
    assert stored(conf) == before
    assert batches(conf) == {}


def stored(conf: dict[str, Any]) -> object:
    location = Path(conf["topology.checkpoint.location"])
    with decision_log(conf, "values") as log:
        kept = log.load(), log.load_batches(), log.stored_generation()
    return kept, {file: file.read_bytes() for file in location.rglob("*") if file.is_file()}


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
