"""Builds what is published: the wheel and the source distribution. The same checkout gives the same bytes.

Runs in an environment that has `requirements/build.txt`, whose flit_core builds them.
"""

import ast
import os
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from progress import SetUpError

_BUILD = """
import sys
from flit_core import buildapi
print(buildapi.build_wheel(sys.argv[1]))
print(buildapi.build_sdist(sys.argv[1]))
"""


def version(source: Path) -> str:
    """Return the version of a checkout or of an unpacked source distribution, without importing it."""
    for line in ast.parse((source / "anchorbolt" / "__init__.py").read_text()).body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            return str(line.value.value)
    raise SetUpError("anchorbolt/__init__.py has no version: write __version__ = X.Y.Z into it.")


def release_time(source: Path) -> int:
    """Return when this version was released, by CHANGELOG.md: midnight UTC in seconds since 1970.

    Raises:
        SetUpError: CHANGELOG.md has no dated section of this version.
    """
    name = version(source)
    section = re.search(
        rf"^## \[{re.escape(name)}\] - (\d{{4}}-\d\d-\d\d)$", (source / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    if section is None:
        raise SetUpError(f"CHANGELOG.md has no section for {name}: write the heading `## [{name}] - YYYY-MM-DD`.")
    return int(datetime.fromisoformat(section[1]).replace(tzinfo=timezone.utc).timestamp())


def build(source: Path, to: Path) -> tuple[Path, Path]:
    """Build the wheel and the source distribution of a checkout into a directory, and return their paths.

    All times in them are that of the release.

    Raises:
        SetUpError: flit refused, or CHANGELOG.md has no dated section of this version.
    """
    to.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(to.resolve())],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(release_time(source))},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SetUpError(f"flit cannot build the distributions of {source}:\n{done.stderr}Correct pyproject.toml.")
    wheel, sdist = done.stdout.split()[-2:]
    return to / wheel, to / sdist
