"""`make dist`: builds what is published, and beside it a list of all that it depends on, into `dist/`.

- the wheel and the source distribution
- `….cdx.json`: a software bill of materials in CycloneDX's format, of the dependencies with all extras for users
- `….licences.md`: the licence of each of them; one of the GPL's family stops the build
- `SHA256SUMS`: the hash of each file

The versions are those of `requirements/extras.txt`, as this Python and this machine get them.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import distributions
from progress import SetUpError, run, say
from virtual_environment import VirtualEnvironment

CHECKOUT = Path(__file__).resolve().parent.parent

# What `requirements/build.txt` brings to an environment, and nobody who installs Anchorbolt gets.
_ONLY_TO_BUILD = ("setuptools", "wheel", "flit_core", "packaging")


def main() -> None:
    """Build everything. On failure, say what the user can do and exit with status 1."""
    parser = argparse.ArgumentParser(description="Build what is published.")
    parser.add_argument("--to", default=CHECKOUT / "dist", type=Path, help="the directory for the files")
    to = parser.parse_args().to
    try:
        make(to)
    except SetUpError as error:
        sys.exit(f"dist: {error}")


def make(to: Path) -> None:
    """Build everything into a directory, which is emptied before.

    Raises:
        SetUpError: a distribution cannot be built, a package cannot be installed, or a licence does not fit.
    """
    shutil.rmtree(to, ignore_errors=True)
    wheel, sdist = distributions.build(CHECKOUT, to)
    name = to / f"anchorbolt-{distributions.version(CHECKOUT)}"
    tools = VirtualEnvironment(CHECKOUT, CHECKOUT / ".venv-dist-tools", locks=("dist.txt",))
    tools.ensure(project=False)
    installed = VirtualEnvironment(CHECKOUT, CHECKOUT / ".venv-dist", locks=("build.txt", "extras.txt"))
    installed.ensure(project=False)
    installed.uninstall_with_pip(*_ONLY_TO_BUILD)
    bill, licences = Path(f"{name}.cdx.json"), Path(f"{name}.licences.md")
    _write_bill(tools, installed, bill)
    _write_licences(tools, installed, licences)
    files = sorted((wheel, sdist, bill, licences))
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (to / "SHA256SUMS").write_text(sums)
    for file in (*files, to / "SHA256SUMS"):
        say(f"{file.stat().st_size:>10,} bytes  {file}")


def _write_bill(tools: VirtualEnvironment, installed: VirtualEnvironment, bill: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        # The tool reads no version that flit finds in the code.
        project = Path(scratch, "pyproject.toml")
        written = f'version = "{distributions.version(CHECKOUT)}"'
        project.write_text((CHECKOUT / "pyproject.toml").read_text().replace('dynamic = ["version"]', written, 1))
        options: list[str | Path] = [
            "--mc-type",
            "library",
            "--output-reproducible",
            "--pyproject",
            project,
            "--output-file",
            bill,
        ]
        run(
            [tools.directory / "bin" / "cyclonedx-py", "environment", installed.python, *options],
            log=tools.log,
            on_failure="Is requirements/dist.txt up to date? `make lock` writes it.",
            env={"SOURCE_DATE_EPOCH": str(distributions.release_time(CHECKOUT))},
        )


def _write_licences(tools: VirtualEnvironment, installed: VirtualEnvironment, licences: Path) -> None:
    refused = ["--fail-on", "GPL;GNU General Public", "--partial-match"]
    options: list[str | Path] = ["--with-system", "--with-urls", "--format", "markdown", "--output-file", licences]
    run(
        [tools.directory / "bin" / "pip-licenses", "--python", installed.python, *options, *refused],
        log=tools.log,
        on_failure="Replace the dependency, or name it in tools/make_dist.py with the reason why its licence fits.",
    )


if __name__ == "__main__":
    main()
