"""The commands that move state, killed by SIGKILL at random moments: the old state or the new one, whole."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.files import open_folder
from anchorbolt.migration_tools.savepoints.stored import Savepoint, savepoints_in, verify
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.migration_tools.conftest import conf_of
from tests.migration_tools.test_rescaling import Job

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(1800)]

KILLS = 100
KEYS = [f"key-{number}" for number in range(3000)]
COUNTS = Counter([*KEYS[:5], *KEYS])
IMPORTED = {f"new-{number}": number for number in range(3000)}


def command(home: Path, *arguments: str, kill_after: float | None = None) -> tuple[int, float]:
    """Run a command, and kill it after so many seconds; return its exit code and how long it took."""
    started = time.monotonic()
    full = [sys.executable, "-m", "anchorbolt", "state", *arguments, "--conf", str(home / "conf.json")]
    process = subprocess.Popen(full, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ})
    try:
        process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.returncode, time.monotonic() - started


@pytest.fixture
def whole(tmp_path: Path, name: str) -> Path:
    """The store, the checkpoint location and a savepoint of a topology that has counted."""
    home = tmp_path / "whole"
    job = Job(SqliteStateProvider(str(home / "state")), name, home / "place")
    job.run([*KEYS[:5], KEYS], 2)
    configure(home)
    assert command(home, "savepoint", name, "--name", "one")[0] == 0
    return home


def configure(home: Path, state: str = "state") -> Any:
    settings = {**conf_of(SqliteStateProvider(str(home / state))), "topology.checkpoint.location": str(home / "place")}
    (home / "conf.json").write_text(json.dumps(settings))
    return settings


@pytest.mark.parametrize("what", ["rescale", "savepoint", "restore", "restore with another parallelism", "import"])
def test_a_command_that_is_killed_is_finished_by_the_same_command(
    what: str, whole: Path, name: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("KILL_SEED", str(random.randrange(1 << 30))))
    print(f"KILL_SEED={seed}")
    moments, ends, took = random.Random(seed), Counter[str](), 0.0
    for number in range(KILLS + 1):
        home = tmp_path / "again"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(whole, home)
        saved = str(home / "place-savepoints" / "one")
        tasks = 3
        if what == "rescale":
            arguments = ["rescale", name, "count=3"]
        elif what == "import":
            entries = (json.dumps({"key": key, "value": value}) for key, value in IMPORTED.items())
            (home / "new.jsonl").write_text("\n".join(entries))
            arguments, tasks = ["import", name, "count", str(home / "new.jsonl"), "--replace"], 2
        elif what == "savepoint":
            arguments, tasks = ["savepoint", name, "--name", "two"], 2
        else:
            shutil.rmtree(home / "state")
            shutil.rmtree(home / "place")
            arguments = ["restore", saved, *(["--rescale", "count=3"] if "another" in what else [])]
            tasks = 3 if "another" in what else 2
        configure(home)
        if not number:
            code, took = command(home, *arguments)
            assert code == 0
        else:
            code, _ = command(home, *arguments, kill_after=moments.uniform(0.3 * took, 1.1 * took))
            ends["killed" if code == -signal.SIGKILL else "done"] += 1
            if what == "savepoint" and code:
                assert savepoints_in(open_folder(str(home / "place-savepoints"))) in (["one"], ["one", "two"])
            if what == "import" and number % 2:  # a start finishes it, or finds nothing of it
                job = Job(SqliteStateProvider(str(home / "state")), name, home / "place")
                assert job.run([], tasks) in (COUNTS, IMPORTED)
            code, _ = command(home, *arguments)
            if code == 2 and what == "savepoint":  # it is there
                code = 0
            assert code == 0
        job = Job(SqliteStateProvider(str(home / "state")), name, home / "place")
        assert job.run([], tasks) == (IMPORTED if what == "import" else COUNTS)
        if what == "savepoint":
            verify(Savepoint.read(open_folder(str(home / "place-savepoints")), "two"))
    assert ends["killed"] > KILLS // 2
