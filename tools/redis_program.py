"""Find the `redis-server` program, or install it as root on Debian; never starts one."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from progress import SetUpError, apt_install, is_root_on_debian, say
from record import Record

OLDEST = 6  # ACL users and TLS came with it

# Directories of programs that not every user has on the PATH.
_MORE_PLACES = ("/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin")

_INSTALL_IT = (
    f"Install Redis {OLDEST} or later so that `redis-server` is on the PATH (Debian and Ubuntu: apt-get install "
    "redis-server; Fedora: dnf install valkey-compat-redis; macOS: brew install redis) and run the command again."
)


def ensure(record: Record) -> None:
    """Put the path of `redis-server` into the record.

    Raises:
        SetUpError: no Redis is new enough, and this process cannot install one.
    """
    if record.redis_server and Path(record.redis_server).exists():
        return
    program = _find()
    if program is None and is_root_on_debian():
        with tempfile.TemporaryDirectory() as directory:
            apt_install("redis-server", log=Path(directory, "apt.log"), on_failure=_INSTALL_IT)
        program = _find()
    if program is None:
        raise SetUpError(f"there is no redis-server on this machine. {_INSTALL_IT}")
    version = _version(program)
    if version < OLDEST:
        raise SetUpError(f"{program} is version {version}. {_INSTALL_IT}")
    record.redis_server = program
    say(f"Redis {version} of {program}")


def _find() -> str | None:
    return shutil.which("redis-server", path=os.pathsep.join([os.environ.get("PATH", ""), *_MORE_PLACES]))


def _version(program: str) -> int:
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetUpError(f"{program} does not run: {error}. {_INSTALL_IT}") from error
    found = re.search(r"\bv=(\d+)", answer)
    if found is None:
        raise SetUpError(f"`{program} --version` says {answer.strip()!r}, which is no version. {_INSTALL_IT}")
    return int(found[1])
