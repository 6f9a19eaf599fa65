"""Uses of `LocalCluster` in tests: with `FakeRedisStateProvider`, and at the top level of an imported module."""

import json
import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.streams import Tuple
from anchorbolt.testing import FakeRedisStateProvider, LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import RichBolt, feeder, run, word_count
from tests.support.programs import printed


def test_a_topology_keeps_its_state_under_the_keys_of_redis() -> None:
    redis = FakeRedisStateProvider()
    handle = run(LocalCluster(), word_count(feeder("a bee", "a cow and a bee")), redis.conf)
    assert handle.state("count") == {"a": 3, "bee": 2, "cow": 1, "and": 1}
    namespaces = [name for name in redis.namespaces() if ":count-" in name]
    client = redis.client()
    assert sum(client.hlen(name) for name in namespaces) == 4
    assert {client.hget(f"{name}$txid", "commit") for name in namespaces} == {b"1"}


def test_providers_of_one_name_share_their_content_and_others_do_not() -> None:
    redis = FakeRedisStateProvider("shared")
    for provider in (FakeRedisStateProvider("shared"), pickle.loads(pickle.dumps(redis))):  # noqa: S301
        with closing(provider.open("words:count-0")) as storage:
            storage.claim()
    assert list(redis.namespaces()) == ["words:count-0"]
    assert list(FakeRedisStateProvider().namespaces()) == []


class KeepsTuples(RichBolt):
    """Keeps some tuples, in several ways, and looks at the end whether they are as they were."""

    def __init__(self, kept_in: str) -> None:
        self.kept_in = kept_in

    def execute(self, tup: Tuple) -> None:
        number = tup["number"]
        if number == 0:
            self.kept: list[tuple[int, Tuple]] = []
            self.later: list[tuple[int, Callable[[], Any]]] = []
        if number % 3 == 0:
            self.kept.append((number, tup))
        if number % 5 == 0:
            self.later.append((number, lambda: tup["number"]))
        if number % 7 == 0:
            self.later.append((number, map(tup.get, ["number"]).__next__))
        self.collector.ack(tup)

    def cleanup(self) -> None:
        seen = [(number, tup[0]) for number, tup in self.kept] + [(number, read()) for number, read in self.later]
        Path(self.kept_in).write_text(json.dumps(seen))


def test_a_tuple_that_a_bolt_keeps_does_not_change(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", FeederSpout(["number"], [[(number,) for number in range(1000)]]))
    builder.set_bolt("keep", KeepsTuples(str(tmp_path / "kept"))).shuffle_grouping("numbers")
    run(LocalCluster(), builder.create_topology("kept"))
    kept = json.loads((tmp_path / "kept").read_text())
    assert len(kept) == 334 + 200 + 143
    assert all(number == seen for number, seen in kept)


JOB = """
from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.engine import LocalCluster
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.topology import TopologyBuilder

class Count(BaseStatefulBolt):
    class Step:
        size = 1

    def __init__(self):
        self.step = Count.Step()
    def prepare(self, conf, context, collector):
        self.collector = collector
    def init_state(self, state):
        self.counts = state
    def execute(self, tup):
        self.counts.put(tup["word"], self.counts.get(tup["word"], 0) + self.step.size)

builder = TopologyBuilder()
builder.set_spout("words", FeederSpout(["word"], [[("a",), ("b",)], [("a",)]]))
builder.set_bolt("count", Count()).fields_grouping("words", "word")
handle = LocalCluster().submit(builder.create_topology("imported"))
assert handle.await_termination(30), "it hangs"
print(sorted(handle.state("count").items()))
"""


def test_a_module_that_runs_a_topology_while_it_is_imported_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "running_job.py").write_text(JOB)
    assert printed("-c", "import running_job", cwd=tmp_path) == "[('a', 2), ('b', 1)]\n"
