"""`LocalCluster` at the top level of a module that is being imported."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.command import ROOT

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
    done = subprocess.run(
        [sys.executable, "-c", "import running_job"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "[('a', 2), ('b', 1)]\n", done.stderr
