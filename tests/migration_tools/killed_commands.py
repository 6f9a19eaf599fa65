"""Runs a command as a process, and kills it by SIGKILL at a moment of its work."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

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
            os.kill(pid, signal.SIGKILL)
        return int(told.readline()), time.monotonic() - started

    with forking, told:
        yield run
        given.close()


def seeded() -> random.Random:
    """The moments of the kills, by the seed that is printed, or given as KILL_SEED."""
    seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)
