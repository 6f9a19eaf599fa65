"""Runs a command as a process, and kills it by SIGKILL at a moment of its work."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, takewhile

import pytest

KILLS = 100

# Forks a process for each command, in which the imports are done, so that the kills hit its work.
_PROGRAM = """
import json, os, sys
from anchorbolt.cli.main import app
import anchorbolt.cli.places, anchorbolt.cli.work_progress, anchorbolt.cli.storm_state, pyarrow.parquet
import anchorbolt.migration_tools.savepoints.restoring, anchorbolt.migration_tools.savepoints.taking
import anchorbolt.migration_tools.importing, anchorbolt.migration_tools.storm_import
import anchorbolt.state_backends.redis.provider, anchorbolt.state_backends.sqlite.provider
for line in sys.stdin:
    if not (pid := os.fork()):
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        sys.argv[1:] = json.loads(line)
        app()
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""

RunCommand = Callable[..., tuple[int, float]]


@pytest.fixture(scope="module")
def run_command() -> Iterator[RunCommand]:
    """Run a command, and kill it after `kill_after` seconds; return its exit code and how long it took."""
    forking = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert forking.stdin is not None
    assert forking.stdout is not None
    given, told = forking.stdin, os.fdopen(os.dup(forking.stdout.fileno()), "rb", buffering=0)

    def run(*arguments: str, kill_after: float | None = None) -> tuple[int, float]:
        given.write(json.dumps(arguments).encode() + b"\n")
        given.flush()
        pid, started = int(told.readline()), time.monotonic()
        if not select.select([told], [], [], kill_after)[0]:
            with suppress(ProcessLookupError):  # it has ended at this moment
                os.kill(pid, signal.SIGKILL)
        return int(told.readline()), time.monotonic() - started

    with forking, told:
        yield run
        given.close()


class Kills:
    """The moments of `KILLS` kills, by a seed that is printed, or given as KILL_SEED."""

    def __init__(self) -> None:
        seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))
        print(f"KILL_SEED={seed}")
        self._moments = random.Random(seed)
        self._took = 0.0
        self.ends = Counter[str]()

    def numbers(self) -> Iterator[int]:
        """Yield 0 for a command that is not killed, and then 1, 2, …"""
        yield from takewhile(lambda _: self.ends["killed"] < KILLS, count())
        print(dict(self.ends))

    def moment(self) -> float:
        """Return a moment in which the command probably works."""
        return self._moments.uniform(0, 1.05 * self._took)

    def ended(self, code: int, took: float) -> None:
        """Note how a command has ended."""
        if code == -signal.SIGKILL:
            self.ends["killed"] += 1
            return
        assert code == 0
        self._took = min(self._took or took, took)  # the machine may have been busy
