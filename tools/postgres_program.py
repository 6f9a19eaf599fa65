"""Find the PostgreSQL server's programs, or install them as root on Debian; never starts one."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from progress import SetUpError, apt_install, is_root_on_debian, say
from record import Record

OLDEST = 12  # generated columns came with it

# Linux distributions keep them off the PATH, a directory for each version.
_MORE_PLACES = (
    "/usr/lib/postgresql/*/bin",  # Debian
    "/usr/pgsql-*/bin",  # PostgreSQL's own packages for Fedora and its relatives
    "/usr/local/pgsql/bin",
    "/usr/local/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/opt/homebrew/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/opt/local/lib/postgresql*/bin",
)

_INSTALL_IT = (
    f"Install PostgreSQL's server, {OLDEST} or later (Debian and Ubuntu: apt-get install postgresql; Fedora: "
    "dnf install postgresql-server; macOS: brew install postgresql@17) and run the command again."
)

# Without this setting, Debian's package creates a cluster "main" on port 5432 that starts with the machine.
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/anchorbolt.conf")


def ensure(record: Record) -> None:
    """Put the path of `postgres` into the record.

    Raises:
        SetUpError: no PostgreSQL is new enough, and this process cannot install one.
    """
    if record.postgres and Path(record.postgres).exists():
        return
    program = find()
    if program is None and is_root_on_debian():
        _install()
        program = find()
    if program is None:
        raise SetUpError(f"there is no PostgreSQL server, {OLDEST} or later, on this machine. {_INSTALL_IT}")
    record.postgres = program
    say(f"PostgreSQL {version(program)} of {program}")


def find() -> str | None:
    """Return the path of the newest `postgres` that has `initdb` in its directory; the PATH comes first."""
    on_path = shutil.which("postgres")
    beside = [Path(on_path).resolve()] if on_path else []
    elsewhere = [found for place in _MORE_PLACES for found in Path("/").glob(f"{place[1:]}/postgres")]
    elsewhere.sort(key=lambda program: version(str(program)), reverse=True)
    for program in (*beside, *elsewhere):
        if os.access(program.with_name("initdb"), os.X_OK) and version(str(program)) >= OLDEST:
            return str(program)
    return None


def version(program: str) -> int:
    """Return the major version of a `postgres`, or 0 if it does not run or does not answer."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"\(PostgreSQL\) (\d+)", answer)
    return int(found[1]) if found else 0


def _install() -> None:
    new = not _NO_CLUSTER.exists()
    if new:
        _NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        _NO_CLUSTER.write_text("create_main_cluster = false\n")
    try:
        with tempfile.TemporaryDirectory() as directory:
            apt_install("postgresql", log=Path(directory, "apt.log"), on_failure=_INSTALL_IT)
    finally:
        if new:  # put the setting back, so that a later installation of PostgreSQL behaves as usual
            _NO_CLUSTER.unlink()
