"""Programs of Python that a test runs to their end."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def ended(*arguments: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python, with this checkout on its path and more in its environment."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=600,
    )


def printed(*arguments: str | Path, cwd: Path | None = None, **env: str) -> str:
    """Run Python as `ended` does, to a good end; return what it printed."""
    run = ended(*arguments, cwd=cwd, **env)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
