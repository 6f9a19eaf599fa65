"""The history of a run on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import convert

from anchorbolt.config import load_conf
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import ConfigError
from anchorbolt.files import open_folder
from anchorbolt.observe.history.records import Graph, GraphComponent, Record, Start, Wave
from anchorbolt.observe.history.segments import read_history
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from anchorbolt.ui import UiServer
from anchorbolt.ui.model.component import component
from anchorbolt.ui.model.now import now
from anchorbolt.ui.model.recorded import observed
from anchorbolt.ui.model.topology import topology
from tests.ui.conftest import DEADLINE_S, Client, Count, Split
from tests.ui.test_rest import PATHS, WORDS, answer_of

ANY_PORT = load_conf({"topology.ui.port": 0}).settings


@pytest.fixture
def location(tmp_path: Path) -> str:
    """The checkpoint location of a run of two waves, the second of which needed two rounds."""
    Count.raised = False
    place = str(tmp_path / "checkpoint")
    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"], [[("a b a",)], [("c bad",)]]))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("lines")
    builder.set_bolt("count", Count(), 3).fields_grouping("split", "word")
    conf = {"topology.state.provider": "memory", "topology.checkpoint.location": place}
    assert LocalCluster().submit(builder.create_topology("words"), conf).await_termination(DEADLINE_S)
    return place


def test_a_history_answers_as_a_run_does_without_the_figures_of_tasks(location: str) -> None:
    folder = open_folder(location)
    server = UiServer.of_history(
        folder.location, lambda: read_history(folder), load_conf({"topology.ui.port": 0}).settings
    )
    client = Client(server.address)
    try:
        for path in PATHS:
            convert(client.json(path), answer_of(path))
        topology = client.json(WORDS)
        assert (topology["status"], topology["isLive"], topology["txid"]) == ("FINISHED", False, 1)
        assert [(each["boltId"], each["executed"], each["tasks"]) for each in topology["bolts"]] == [
            ("split", 2, 2),
            ("count", 5, 3),
        ]
        assert topology["recovery"]["action"] == "started"
        edges = [(each["source"], each["target"], each["perSecond"]) for each in client.json(f"{WORDS}/graph")["edges"]]
        assert edges == [("lines", "split", None), ("split", "count", None)]
        assert client.json(f"{WORDS}/now")["canAct"] is False
        assert client.ask("/readyz")[0] == 503
        assert client.ask("/metrics")[0] == 404
    finally:
        server.close()


def test_what_a_history_does_not_tell_is_null_and_not_zero(location: str) -> None:
    seen = observed(list(read_history(open_folder(location))), location)
    shown = topology(seen, ":all-time")
    untold = ("failed", "errors", "execute_ms", "keys_staged", "bytes_staged", "bytes_out", "transferred")
    for bolt in shown.bolts:
        assert [getattr(bolt, name) for name in (*untold, "capacity", "execute_latency")] == [None] * 9
    [spout] = shown.spouts
    assert [getattr(spout, name) for name in untold if name != "failed"] == [None] * 6
    assert (spout.executed, spout.failed) == (2, 0)
    assert shown.msg_timeout is None
    assert {each.transferred for each in shown.topology_stats} == {None}
    of_count = component(seen, "count", ":all-time", first=0, count=10, sort="task")
    assert of_count is not None
    for each in of_count.bolt_stats or ():
        assert [getattr(each, name) for name in (*untold, "capacity", "execute_latency")] == [None] * 9
    does = now(seen)
    assert (does.commit_age_secs, does.messages_in_flight, does.oldest_message_secs) == (None, None, None)


def test_a_place_without_a_history_is_shown_empty(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    server = UiServer.of_history(
        folder.location, lambda: read_history(folder), load_conf({"topology.ui.port": 0}).settings
    )
    try:
        client = Client(server.address)
        assert client.json("/api/v1/topology/history/waves") == {"total": 0, "waves": []}
        assert client.json("/api/v1/topology/history/now")["status"] == "UNKNOWN"
    finally:
        server.close()


def test_a_history_that_cannot_be_read_is_refused() -> None:
    def away() -> list[Record]:
        raise OSError("away")

    with pytest.raises(ConfigError):
        UiServer.of_history("somewhere", away, ANY_PORT)


def test_the_messages_of_several_spouts_are_those_of_the_topology_and_of_no_single_spout() -> None:
    graph = Graph("words", [GraphComponent(id=name, kind="spout", type="", level=0, tasks=1) for name in "ab"])
    start = Start(at=1.0, generation=1, txid=0, graph=graph)
    shown = topology(observed([start, Wave(at=1.0, generation=1, txid=0, acked=5, failed=2)], "somewhere"), ":all-time")
    [stats] = [each for each in shown.topology_stats if each.window == ":all-time"]
    assert (stats.acked, stats.failed) == (5, 2)
    assert [(each.acked, each.failed, each.dead_letters) for each in shown.spouts] == [(None, None, None)] * 2
