"""Of the benchmarks one is run, which replaces parts of the engine. Of the others, what they import is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_each_benchmark_can_be_imported() -> None:
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert names
    paths = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])  # as a script, a benchmark finds those beside it
    code = f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.thorough
def test_runs_are_measured_beside_runs_without_figures() -> None:
    command = [sys.executable, "-m", "benchmarks.measuring", "--case", "local-4", "--pairs", "1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "of processor time" in ran.stdout
