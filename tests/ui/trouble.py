"""A run of `anchorbolt run` in a process of its own, in trouble, and what its page and its metrics say of it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from tests.cli.command import Command, run_arguments, wait_until
from tests.ui.conftest import Client

WITHIN_S = 3.0
"""From what happens until the page and the metrics say so."""

# Its troubles begin once a file is there: `bad` makes the bolt raise, `flood` makes the spout quick,
# `quiet` ends the input, `kill` ends a worker.
JOB = """
import time
from pathlib import Path
from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.topology import TopologyBuilder

class Numbers(BaseRichSpout):
    stable_message_ids = True
    def open(self, conf, context, collector):
        self.collector, self.number = collector, time.time_ns()
    def next_tuple(self):
        if not Path("quiet").exists():
            self.number += 1
            self.collector.emit((self.number,), self.number)
            if not Path("flood").exists():
                time.sleep(0.01)
    def declare_output_fields(self, declarer):
        declarer.declare("number")

class Sum(BaseStatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
    def init_state(self, state):
        self.state = state
    def execute(self, tup):
        if Path("bad").exists():
            raise ValueError("a bad tuple")
        time.sleep(0.002)
        if Path("kill").exists():
            import os
            Path("kill").unlink()
            os._exit(9)
        self.state["sum"] = self.state.get("sum", 0) + tup["number"]
        self.collector.ack(tup)

def topology():
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("sum", Sum()).global_grouping("numbers")
    return builder.create_topology("troubled")
"""

# The command, but with the engine of tests: it starts in a second.
LOCAL = """
import json, sys
from anchorbolt.cli.run.progress import Display
from anchorbolt.cli.run.run_job import Run
from tests.cli.run.local_engine import LocalEngine
sys.exit(Run("job.py:topology", LocalEngine(), Display(), overrides=json.loads(sys.argv[1])).to_exit_code())
"""

TOPOLOGY = "/api/v1/topology/troubled"


class TroubledRun:
    """A driver in a directory with the job; state in a Redis, page and metrics on free ports."""

    def __init__(self, directory: Path, redis_port: int, *, on_spark: bool, **settings: Any) -> None:
        (directory / "job.py").write_text(JOB)
        self.location = directory / "checkpoint"
        pool = {"host": "127.0.0.1", "port": redis_port}
        all_settings = {
            "topology.state.provider": "redis",
            "topology.state.provider.config": {"jedisPoolConfig": pool},
            "topology.checkpoint.location": str(self.location),
            "topology.metrics.port": 0,
            "topology.ui.port": 0,
            "topology.state.checkpoint.interval.ms": 200,
            **settings,
        }
        overrides = [f"{key}={json.dumps(value)}" for key, value in all_settings.items()]
        if on_spark:
            options = [part for each in overrides for part in ("--set", each)]
            command = run_arguments("job.py:topology", "--master", "local[2]", *options)
        else:
            command = [sys.executable, "-c", LOCAL, json.dumps(overrides)]
        self.command = Command(command, directory=directory)
        self.directory = directory

    def begin(self, trouble: str) -> None:
        """Make a file that the job looks for."""
        (self.directory / trouble).touch()

    def wait_for_commits(self) -> None:
        wait_until(lambda: self.now().get("txid", -1) > 1 or self.command.has_ended, f"commits of {self.command!r}")
        assert not self.command.has_ended, repr(self.command)

    def now(self) -> dict[str, Any]:
        """What the page says; empty if it does not answer."""
        client = self._client("page")
        try:
            told = {} if client is None else client.json(f"{TOPOLOGY}/now")
        except OSError:
            return {}
        return {**told, "readyz": self._readyz(client)} if told else {}

    def failures(self) -> str:
        """What the page tells of failures, as JSON."""
        client = self._client("page")
        assert client is not None
        return client.ask(f"{TOPOLOGY}/failures")[2].decode()

    def metrics(self) -> Mapping[str, Any]:
        """The metrics, by name and value of their label; empty if they cannot be had."""
        client = self._client("metrics")
        if client is None:
            return {}
        try:
            status, _, body = client.ask("/metrics")
        except OSError:
            return {}
        assert status == 200
        return {
            " ".join(
                [sample.name, *(value for name, value in sample.labels.items() if name != "topology")]
            ): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }

    def say_within_3_s(
        self, page: Callable[[dict[str, Any]], bool], metrics: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        """Assert that within 3 s of now the page answers with this, and the metrics do."""
        began, left = time.monotonic(), {"page", "metrics"}
        while left:
            told: dict[str, Any] = {"page": self.now(), "metrics": self.metrics()}
            left -= {name for name, fits in (("page", page), ("metrics", metrics)) if fits(told[name])}
            took = time.monotonic() - began
            assert took < WITHIN_S, f"{left} say nothing after {took:.1f} s: {told} of {self.command!r}"

    def _client(self, name: str) -> Client | None:
        found = re.search(rf"^{name}: (http://\S+)$", self.command.out, re.MULTILINE)
        return None if found is None else Client(found[1])

    def _readyz(self, client: Client | None) -> str:
        assert client is not None
        try:
            return client.ask("/readyz")[2].decode()
        except OSError:
            return ""


def refuses(address: str) -> bool:
    """Return whether nobody listens there: Prometheus's `up` is 0."""
    place = urlsplit(address)
    try:
        Client(f"http://{place.netloc}").ask("/metrics")
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False
