"""The benchmarks are not run by the tests, but what they import is there."""

import os
import subprocess
import sys
from pathlib import Path

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
