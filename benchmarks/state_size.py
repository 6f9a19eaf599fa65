"""The cost of a wave, and the worker's memory, while a namespace grows to millions of keys.

    make bench-size OPTIONS="--provider redis-cluster --keys 10000000"
    make bench-size OPTIONS="--provider hbase --keys 1000000 --wave 1000"

Waves of 100,000 new keys fill a namespace. Each time it is ten times as large, small waves are measured: each of them
reads some random keys, stages an update of each and commits them. The table shows their median, the process's memory,
and the longest time that a Redis took for one command, by its own latency monitor.
"""

import random
import resource
import statistics
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from redis import Redis
from rich.console import Console
from rich.table import Table

from anchorbolt.config.loading import load_conf
from anchorbolt.state_backends.attempt import TaskNamespace
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, Fence, StateStorage
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.state_backends.state import AttemptScope
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.support.stores import PROVIDERS, Store, settings_of, store_of

_FILLED_BY = 100_000
_MEASURED = 20


class Waves:
    """One namespace, wave by wave."""

    def __init__(self, storage: StateStorage, small: int) -> None:
        self.keys = 0
        self._small = small
        self._state = TaskNamespace(storage, "bench/1")
        self._fence: Fence = storage.claim()
        self._txid, self._winner = NOTHING_COMMITTED, ""

    def fill(self) -> None:
        """Add keys."""
        new = [(b"key-%010d" % key, b"0" * 16) for key in range(self.keys, self.keys + _FILLED_BY)]
        self._wave([], new)
        self.keys += _FILLED_BY

    def small(self) -> float:
        """Take one small wave; return its seconds."""
        chosen = [b"key-%010d" % key for key in random.sample(range(self.keys), self._small)]
        started = time.perf_counter()
        self._wave(chosen, [(key, uuid.uuid4().bytes) for key in chosen])
        return time.perf_counter() - started

    def _wave(self, read: list[bytes], updates: list[tuple[bytes, bytes]]) -> None:
        attempt = uuid.uuid4().hex
        self._state.begin(AttemptScope(self._fence, self._txid + 1, attempt, self._txid, self._winner))
        if read and None in self._state.read(read):
            raise RuntimeError("a key is missing")
        self._state.stage([key for key, _ in updates], [value for _, value in updates])
        self._state.seal_staged(self._txid + 1)
        self._state.commit(self._txid + 1)
        self._txid, self._winner = self._txid + 1, attempt


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "redis-cluster",
    keys: Annotated[int, typer.Option(min=_FILLED_BY, help="How large the namespace becomes.")] = 10_000_000,
    wave: Annotated[int, typer.Option(min=1, max=_FILLED_BY, help="Keys of a small wave.")] = 10_000,
) -> None:
    """Measure small waves on a growing namespace."""
    console = Console()
    table = Table(title=f"{provider}: waves of {wave:,} keys read and updated")
    for column in (
        "keys in the namespace",
        "ms a wave, median",
        "slowest",
        "MiB of the process, at most so far",
        "longest command, ms",
    ):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(provider, Path(home)) as server:
        conf = load_conf(settings_of(server))
        store = provider_from(conf.settings, shared_by_processes=True, shared_by_machines=False)
        with closing(store.open(f"bench:{uuid.uuid4().hex}-0")) as storage:
            waves = Waves(storage, wave)
            servers = _servers(server)
            for each in servers:
                each.config_set("latency-monitor-threshold", 1)
            measured_at = _FILLED_BY
            while waves.keys < keys:
                waves.fill()
                if waves.keys in (measured_at, keys):
                    measured_at *= 10
                    times = sorted(waves.small() * 1000 for _ in range(_MEASURED))
                    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                    events = [event for each in servers for event in each.latency_latest()]
                    stall = max((event[3] for event in events if event[0] == b"command"), default=0)
                    milliseconds = f"{statistics.median(times):.0f}", f"{times[-1]:.0f}"
                    row = (f"{waves.keys:,}", *milliseconds, f"{memory:.0f}", f"{stall}" if servers else "")
                    table.add_row(*row)
                    Console(stderr=True).print(*row)
    console.print(table)


def _servers(store: Store) -> list[Redis]:
    """Return a connection to each Redis of the store."""
    nodes = [f"{store.host}:{store.port}"] if isinstance(store, RedisServer) else []
    nodes = store.nodes if isinstance(store, RedisCluster) else nodes
    return [Redis.from_url("redis://" + node) for node in nodes]


if __name__ == "__main__":
    typer.run(main)
