"""What it costs to move state: the commands `state savepoint`, `restore` and `rescale`, beside a raw client.

    make bench-moving OPTIONS="--provider redis --keys 10000000"

All keys are in one namespace. The raw client writes and reads the same keys once. Each command is a process of its own,
whose time and memory are whole: its start counts. Then the topology runs in two workers, and a savepoint is taken
again: the waves before and meanwhile are compared.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.engine import LocalCluster, SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.stopped_topology import begun, read_stopped
from anchorbolt.serialization.codecs import MsgpackCodec, MsgpackKeyCodec
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.topology import TopologyBuilder
from benchmarks.raw_clients import raw_client
from benchmarks.workloads import TASKS
from tests.support.stores import PROVIDERS, config_of, settings_of, store_of

NAME = "moving"
_PART = 100_000
_MANY = 1_000_000
_SLICE = 10_000
_IN_A_WAVE = 10_000


class Count(BaseStatefulBolt[Any]):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: Any) -> None:
        pass


def key(number: int) -> str:
    return f"key-{number:08d}"


class Runs:
    """The topology, its configuration, and commands on it."""

    def __init__(self, settings: dict[str, Any], home: Path, provider: str) -> None:
        self.home = home
        self.conf = {**settings, "topology.checkpoint.location": str(home / "checkpoint")}
        self.conf_file = home / "conf.json"
        self.conf_file.write_text(json.dumps(self.conf))
        self.table = Table("", "s", "of the raw client's speed", "MB", title=provider)
        self.raw_s = 0.0

    def fill(self, keys: int) -> None:
        """Give the topology its state: by a wave with one key, and transactions with all others."""
        builder = TopologyBuilder()
        builder.set_spout("in", FeederSpout(["key"], [[(key(0),)]]))
        builder.set_bolt("count", Count()).fields_grouping("in", "key")
        LocalCluster().submit(builder.create_topology(NAME), self.conf).await_termination()
        codecs = Codecs(MsgpackKeyCodec(), MsgpackCodec())
        encoding = EntryEncoding("", codecs.keys, codecs.values)
        store = self.provider()
        for first in range(0, keys, _MANY):
            snapshot, record = read_stopped(store, NAME, NAME, taken=False, dry_run=False)
            [namespace] = record.namespaces
            with begun(store, snapshot, record, command="fill") as transaction:
                writer = transaction.writer(namespace, snapshot.heads[namespace].codec)
                for start in range(first, min(first + _MANY, keys), _SLICE):
                    names = [key(number) for number in range(start, min(start + _SLICE, keys))]
                    values = encoding.value_bytes(list(range(start, start + len(names))))
                    writer.stage(dict(zip(encoding.key_bytes(names), values, strict=True)))
                transaction.finish(record, {namespace: writer.sealed()})

    def provider(self) -> Any:
        from anchorbolt.config.loading import load_conf

        return provider_from(load_conf(self.conf).settings, shared_by_processes=True, shared_by_machines=False)

    def measure_raw(self, provider: str, config: dict[str, Any], keys: int) -> None:
        client = raw_client(provider, config)
        began = time.perf_counter()
        for start in range(0, keys, _PART):
            client.write([(key(number).encode(), b"%d" % number) for number in range(start, start + _PART)])
        for start in range(0, keys, _PART):
            client.read([key(number).encode() for number in range(start, start + _PART)])
        self.raw_s = time.perf_counter() - began
        client.close()
        self.table.add_row("the raw client writes and reads", f"{self.raw_s:.1f}", "", "")

    def command(self, *arguments: str, conf: Path | None = None) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "anchorbolt", "state", *arguments]
        if conf is not None:
            command += ["--conf", str(conf)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{command} ended with status {status}")
        seconds = time.perf_counter() - began
        self.table.add_row(
            arguments[0], f"{seconds:.1f}", f"{self.raw_s / seconds:.2f}", f"{usage.ru_maxrss / 1024:.0f}"
        )
        Console(stderr=True).print(f"{arguments[0]}: {seconds:.1f} s")

    def waves(self, keys: int, seconds: float) -> tuple[list[float], list[float]]:
        """Return the ms from commit to commit before a savepoint, and while it is taken."""
        spark = build_session(NAME, f"local[{TASKS}]", workers=TASKS)
        spark.sparkContext.setLogLevel("ERROR")
        builder = TopologyBuilder()
        spout = GeneratorSpout(["key"], lambda number: (key(number * 7919 % keys),), batch=1000)
        builder.set_spout("in", spout)
        builder.set_bolt("count", Count()).fields_grouping("in", "key")
        commits: list[float] = []

        def on_wave(report: WaveReport) -> None:
            commits.append(time.perf_counter())

        conf = {**self.conf, "topology.workers": TASKS, "topology.max.spout.pending": _IN_A_WAVE}
        handle = SparkCluster(spark).submit(builder.create_topology(NAME), conf, on_wave=on_wave)
        handle.await_termination(10 + seconds)
        began = time.perf_counter()
        self.command("savepoint", NAME, "--name", "running", conf=self.conf_file)
        ended = time.perf_counter()
        handle.stop(120)
        spark.stop()
        return _times(commits, began - seconds, began), _times(commits, began, ended)


def _times(commits: Sequence[float], first: float, last: float) -> list[float]:
    return [(b - a) * 1000 for a, b in pairwise(commits) if first <= a and b <= last]


def _shown(times: list[float]) -> str:
    percentiles = statistics.quantiles(times, n=100)
    return f"median {percentiles[49]:.0f} ms, p99 {percentiles[98]:.0f} ms of {len(times)} waves"


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "sqlite",
    keys: Annotated[int, typer.Option(min=_PART, help="A multiple of 100,000.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(help="How long the waves before the savepoint are measured.")] = 30,
) -> None:
    """Measure the commands that move state."""
    with (
        tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as name,
        store_of(provider, Path(name, "a")) as store,
        store_of(provider, Path(name, "b")) as other,
    ):
        runs = Runs(settings_of(store), Path(name), f"{provider}, {keys:,} keys in one namespace")
        runs.fill(keys)
        runs.measure_raw(provider, config_of(store), keys)
        runs.command("savepoint", NAME, "--name", "one", conf=runs.conf_file)
        saved = f"{runs.conf['topology.checkpoint.location']}-savepoints/one"
        target = Path(name, "other.json")
        target.write_text(json.dumps({**settings_of(other), "topology.checkpoint.location": f"{name}/other"}))
        runs.command("restore", saved, conf=target)
        runs.command("rescale", NAME, "count=2", conf=target)
        before, meanwhile = runs.waves(keys, seconds)
    Console().print(runs.table)
    Console().print(f"waves before the savepoint: {_shown(before)}; meanwhile: {_shown(meanwhile)}")


if __name__ == "__main__":
    typer.run(main)
