"""Base64 to binary beside a plain loop of redis-py over the same hash: rates, their ratio, and the memory it takes.

    make bench-migrate
    make bench-migrate OPTIONS="--entries 100000 --entries 10000000 --rounds 1"

The plain loop reads by `HSCAN` and writes by `HSET` through a pipeline, 1,000 entries at a time, and checks nothing.
The two take turns on one Redis, each on a newly made hash. The memory figure is the largest resident size of the
command in a process of its own.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import redis

from anchorbolt.migration_tools import base64_to_binary as tool
from anchorbolt.state_backends.redis.addresses import RedisServer as Address
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes
from tests.migration_tools.storm_data import storm_1_0, storm_1_1, words
from tests.servers.redis_server import RedisServer

NS = "words-1"
_AT_ONCE = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, action="append", help="how many; may be repeated [100000, 1000000]")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    program = shutil.which("redis-server")
    if program is None:
        sys.exit("there is no redis-server on the PATH")
    with tempfile.TemporaryDirectory() as directory:
        server = RedisServer(program, Path(directory) / "redis")
        server.start()
        try:
            for entries in asked.entries or [100_000, 1_000_000]:
                for storm in ("1.0", "1.1"):
                    measure(server, entries, storm, asked.rounds)
        finally:
            server.stop()


def measure(server: RedisServer, entries: int, storm: str, rounds: int) -> None:
    """Measure one size, and print the line."""
    with server.client() as client:
        plain, ours = [], []
        for _ in range(rounds):
            fill(client, entries, storm)
            plain.append(timed(lambda: plain_loop(client)))
            fill(client, entries, storm)
            ours.append(timed(lambda: migrate(server)))
        fill(client, entries, storm)
        megabytes = peak(server)
        assert client.hlen(NS) == client.hlen(f"{NS}_old") == entries
    ratio = statistics.median(one / other for one, other in zip(plain, ours, strict=True))
    print(
        f"Storm {storm}, {entries:>10,} entries: plain loop {entries / statistics.median(plain):>9,.0f}/s, "
        f"migration {entries / statistics.median(ours):>9,.0f}/s, ratio {ratio:.2f}, memory {megabytes:,.0f} MB",
        flush=True,
    )


def fill(client: redis.Redis, entries: int, storm: str) -> None:
    """Make the hash anew."""
    client.flushall()
    written = storm_1_0 if storm == "1.0" else storm_1_1
    for first in range(0, entries, _AT_ONCE):
        mapping: Any = written(words(min(_AT_ONCE, entries - first), first=first))
        client.hset(NS, mapping=mapping)


def plain_loop(client: redis.Redis) -> None:
    """Read the hash and write its decoded entries, without any check."""
    cursor = 0
    while True:
        cursor, page = client.hscan(NS, cursor, count=1000)
        with client.pipeline(transaction=False) as pipeline:
            pipeline.hset("copy", mapping=page)
            pipeline.execute()
        if cursor == 0:
            return


def migrate(server: RedisServer) -> None:
    """Run the migration in this process."""
    address = Address(
        username=None, password=None, timeout_ms=10_000, tls=None, host=server.host, port=server.port, database=0
    )
    with RedisHashes(address) as hashes:
        report = tool.migrate(hashes, [NS.encode()])
    assert report.error is None, report.error


def peak(server: RedisServer) -> float:
    """Run the command as a process, and return its largest resident size in MB."""
    arguments = ["-m", "anchorbolt", "migrate", "base64-to-binary", "-h", server.host, "-p", str(server.port)]
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, *arguments, "-n", NS])
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"the command failed with {status}"
    return usage.ru_maxrss / 1024


def timed(run: Any) -> float:
    """Return how many seconds it took."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
