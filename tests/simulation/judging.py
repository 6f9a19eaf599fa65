"""Takes a guard of the protocol out of a copy of the package, and looks whether seeds or the model's tests notice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.mutants import Mutant

__all__ = ["Verdict", "judge", "mutated"]

ROOT = Path(__file__).resolve().parent.parent.parent
_SEED = re.compile(r"^seed (\d+): (.*)$", re.MULTILINE)
_FAILED = re.compile(r"^FAILED (.+?)(?: - (.*))?$", re.MULTILINE)
_MODEL_TESTS = (
    "tests/state_backends/test_conformance.py::TestMemory",
    "tests/checkpoint",
    "tests/state_backends/test_memory.py",
    "tests/state_backends/test_rules.py",
    "tests/state_backends/test_key_value.py",
    "tests/state_backends/test_reads_where_they_stand.py",
    "tests/engine/task/test_bolt_task.py",
    "tests/engine/driver/test_waves.py",
    "tests/engine/driver/test_sinks.py",
    "tests/engine/driver/test_older_driver.py",
    "tests/engine/driver/test_failed_rounds.py",
)


@dataclass(frozen=True)
class Verdict:
    """What came of a mutant.

    Attributes:
        mutant: The mutant.
        caught_by: The seed or the test that caught it; empty if none did.
        reason: What it broke.
    """

    mutant: Mutant
    caught_by: str
    reason: str


def mutated(mutant: Mutant) -> str:
    """Return a mutant's source. Raises `AssertionError` where the source no longer has what it replaces."""
    source = (ROOT / "anchorbolt" / mutant.file).read_text()
    found = source.count(mutant.old)
    assert found == 1, f"{mutant.name}: {mutant.file} has what it replaces {found} times"
    return source.replace(mutant.old, mutant.new)


def judge(mutant: Mutant, seeds: int) -> Verdict:
    """Simulate a mutant until a seed catches it, or all have been tried; then run the model tests on it.

    Raises:
        AssertionError: The source no longer has what the mutant replaces, or could not be run at all.
    """
    with tempfile.TemporaryDirectory(prefix="anchorbolt-mutant-") as directory:
        for package in ("anchorbolt", "tests", "tools"):
            shutil.copytree(ROOT / package, Path(directory) / package)
        shutil.copy(ROOT / "pyproject.toml", directory)
        (Path(directory) / "anchorbolt" / mutant.file).write_text(mutated(mutant))
        simulated = _run(directory, "tests.simulation.first_failure", "--seeds", str(seeds))
        assert simulated.returncode == 0, f"{mutant.name}: {simulated.stdout}{simulated.stderr}"
        caught = _SEED.search(simulated.stdout)
        if caught is not None:
            return Verdict(mutant, f"seed {caught[1]}", caught[2])
        tested = _run(directory, "pytest", "-q", "-x", "-p", "no:cacheprovider", *_MODEL_TESTS)
        assert tested.returncode in (0, 1), f"{mutant.name}: {tested.stdout}{tested.stderr}"
        failed = _FAILED.search(tested.stdout)
        return Verdict(mutant, failed[1], failed[2] or "") if failed else Verdict(mutant, "", "")


def _run(directory: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": directory, "ANCHORBOLT_HYPOTHESIS": "caught"},
        capture_output=True,
        text=True,
        check=False,
    )
