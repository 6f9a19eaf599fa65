"""The campaign: kills a migration with SIGKILL at random moments, runs it again, and checks all data and backups.

    python -m tests.migration_tools.base64_to_binary.kills --kills 100 --entries 100000
    python -m tests.migration_tools.base64_to_binary.kills --kills 100 --entries 50000 --tool convert

Every second kill is on a Redis Cluster. A failure prints the seed of its moment.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests.migration_tools.base64_to_binary.conftest import Store, close, cluster_store, server_store
from tests.migration_tools.storm_data import Entries, storm_1_1, storm_1_2, words, words_2_6
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

NS = "words-1"

# The command, which first prints a line when its imports are done, so that no kill hits the imports.
_PROGRAM = """
import sys
from anchorbolt.cli.main import app
import anchorbolt.cli.work_progress, anchorbolt.migration_tools.base64_to_binary.commands
import anchorbolt.migration_tools.storm_conversion.commands
sys.stdout.write("ready\\n"); sys.stdout.flush()
app()
"""


class Tool(NamedTuple):
    """A command, and the hashes that it converts."""

    arguments: list[str]
    source: dict[str, Entries]
    converted: dict[str, Entries]


def base64_to_binary(entries: int) -> Tool:
    """A namespace with both hashes."""
    gone = (b"\x03\x01gon\xe5",)
    prepared = words(entries // 10, first=entries)
    return Tool(
        ["base64-to-binary", "-n", NS],
        {NS: storm_1_1(words(entries), deleted=gone), f"{NS}$prepare": storm_1_1(prepared)},
        {NS: storm_1_2(words(entries), deleted=gone), f"{NS}$prepare": storm_1_2(prepared)},
    )


def convert(entries: int) -> Tool:
    """A namespace with both hashes, and another one."""
    others = words(entries // 10)
    prepared = words(entries // 10, first=entries)
    return Tool(
        ["convert", "--from", "1.2", "--to", "2.8", "--component", "words"],
        {
            NS: storm_1_2(words(entries)),
            f"{NS}$prepare": storm_1_2(prepared, deleted=(b"\x03\x01gon\xe5",)),
            "words-2": storm_1_2(others),
        },
        {
            NS: words_2_6(entries),
            f"{NS}$prepare": words_2_6(entries // 10, first=entries, deleted=("gone",)),
            "words-2": words_2_6(entries // 10),
        },
    )


TOOLS = {"base64-to-binary": base64_to_binary, "convert": convert}


class Victim:
    """A store with the hashes of a tool, and the command that converts them."""

    def __init__(self, store: Store, tool: Tool, arguments: list[str]) -> None:
        self.store = store
        self.arguments = ["migrate", *tool.arguments, *arguments]
        self.source = tool.source
        self.expected = {**tool.converted, **{f"{key}_old": hash for key, hash in self.source.items()}}
        self._dumps: dict[str, Any] = {}

    def restore(self) -> None:
        """Restore the source and delete everything else."""
        for client in self.store.clients:
            client.flushall()
        for key, entries in self.source.items():
            if key in self._dumps:
                self.store.router.restore(key, 0, self._dumps[key], replace=True)
                continue
            items = list(entries.items())
            for start in range(0, len(items), 5_000):
                self.store.put(key, dict(items[start : start + 5_000]))
            self._dumps[key] = self.store.router.dump(key)

    def start(self) -> subprocess.Popen[str]:
        """Start the command, and return when its imports are done."""
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *self.arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def run(self) -> float:
        """Run the command to its end; return its duration in seconds."""
        process = self.start()
        began = time.monotonic()
        out, err = process.communicate()
        assert process.returncode == 0, out + err
        return time.monotonic() - began

    def kill_after(self, seconds: float) -> str:
        """Kill the command, check that nothing is lost, and return the step that it had reached."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        found = self.store.everything()
        for key, source in self.source.items():
            backup = found.get(f"{key}_old")
            assert backup in (None, source), f"the backup of {key} is not the source"
            assert found[key] == source or (found[key] == self.expected[key] and backup == source), key
        if process.returncode == 0:
            return "had ended"
        converted = sum(found[key] == self.expected[key] for key in self.source)
        if len(self.store.clients) == 1:  # one transaction swaps everything
            assert converted in (0, len(self.source)), f"{converted} hashes were swapped"
        left = sum("$anchorbolt$" in key for key in found)
        return f"{converted} of {len(self.source)} swapped, {left} temporary"

    def check(self) -> None:
        found = self.store.everything()
        assert found.keys() == self.expected.keys(), sorted(found)
        for key, entries in self.expected.items():
            assert found[key] == entries, key


def kill_and_finish(victim: Victim, moment: float) -> str:
    victim.restore()
    how_far = victim.kill_after(moment)
    victim.run()
    victim.check()
    return how_far


def victims(stack: ExitStack, entries: int, tool: str = "base64-to-binary") -> list[Victim]:
    """Return a victim on a server and one on a cluster."""
    program = shutil.which("redis-server")
    assert program is not None, "there is no redis-server on the PATH"
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = RedisServer(program, directory / "server")
    server.start()
    stack.callback(server.stop)
    cluster = RedisCluster(program, directory / "cluster")
    cluster.start()
    stack.callback(cluster.stop)
    stores = [server_store(server), cluster_store(cluster)]
    for store in stores:
        stack.callback(close, store)
    chosen = TOOLS[tool](entries)
    port = str(cluster.masters[0].port)
    return [
        Victim(stores[0], chosen, ["-h", server.host, "-p", str(server.port)]),
        Victim(stores[1], chosen, ["-h", server.host, "-p", port, "--cluster"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--tool", choices=TOOLS, default="base64-to-binary")
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    moments = random.Random(asked.seed)
    found: Counter[str] = Counter()
    with ExitStack() as stack:
        chosen = victims(stack, asked.entries, asked.tool)
        whole = []
        for victim in chosen:
            victim.restore()
            whole.append(victim.run())
        print("a whole run takes " + ", ".join(f"{seconds:.2f} s" for seconds in whole))
        for number in range(asked.kills):
            which = number % 2
            moment = moments.uniform(0, whole[which] * 1.02)
            try:
                how_far = kill_and_finish(chosen[which], moment)
            except BaseException:
                print(f"failed: kill {number}, {'cluster' if which else 'server'}, after {moment:.4f} s")
                raise
            found[f"{'cluster' if which else 'server'}: {how_far}"] += 1
    for what, times in sorted(found.items()):
        print(f"{times:4} {what}")
    print(f"{asked.kills} kills, every second run finished, all data and backups right")


if __name__ == "__main__":
    main()
