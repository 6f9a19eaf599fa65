"""Runs a command as a process, and kills it by SIGKILL at a moment of its work."""

import os
import random
import subprocess
import sys
import time

KILLS = 100

# The command, which first prints a line when its imports are done, so that the kills hit its work.
_PROGRAM = """
import sys
from anchorbolt.cli.main import app
import anchorbolt.cli.places, anchorbolt.cli.work_progress, anchorbolt.cli.storm_state, pyarrow.parquet
import anchorbolt.migration_tools.savepoints.restoring, anchorbolt.migration_tools.savepoints.taking
import anchorbolt.migration_tools.importing, anchorbolt.migration_tools.storm_import
import anchorbolt.state_backends.redis.provider, anchorbolt.state_backends.sqlite.provider
sys.stdout.write("ready\\n"); sys.stdout.flush()
app()
"""


def run_command(*arguments: str, kill_after: float | None = None) -> tuple[int, float]:
    """Run a command, and kill it after so many seconds of its work; return its exit code and how long it worked."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = time.monotonic()
    try:
        _, err = process.communicate(timeout=kill_after)
        sys.stderr.write(err)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode, time.monotonic() - started


def seeded() -> random.Random:
    """The moments of the kills, by the seed that is printed, or given as KILL_SEED."""
    seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)
