"""Build the documentation's site: `build_docs.py [directory]`, by default into build/docs.

A dead link, a page that the navigation lacks, a missing anchor, and whatever else MkDocs warns of is a failure.
"""

import os
import subprocess
import sys
from pathlib import Path

from own_environment import DOCS

_CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Build the site, and exit with MkDocs's status."""
    python = DOCS.python()
    if python is None:
        sys.exit("build_docs: MkDocs is not installed. Run `make docs`, which installs it first.")
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else _CHECKOUT / "build" / "docs"
    # -I: neither the current directory nor the user's own packages may replace a module.
    command = [
        str(python),
        "-I",
        "-m",
        "mkdocs",
        "--quiet",
        "build",
        "--strict",
        "--site-dir",
        str(directory.resolve()),
    ]
    # Material would print ten lines about its successor in each build.
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    status = subprocess.run([*command, "--config-file", str(_CHECKOUT / "mkdocs.yml")], env=env, check=False).returncode
    if status == 0:
        print(f"build_docs: open {directory / 'index.html'}; for the search, `python3 -m http.server -d {directory}`")
    sys.exit(status)


if __name__ == "__main__":
    main()
