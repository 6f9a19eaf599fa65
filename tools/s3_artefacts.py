"""Find moto, the S3 server that the tests start, and Hadoop's client of S3 for Spark, or fetch both.

Moto runs in a virtual environment of its own, below the user's cache directory: what it needs must not decide which
versions Anchorbolt is tested with.
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from maven_jars import JarList
from progress import SetUpError, optional, run, say
from virtual_environment import VirtualEnvironment, base_python

CLIENT = JarList("hadoop-aws.txt", "hadoop-aws")

_CHECKOUT = Path(__file__).resolve().parent.parent
_LOCK = "moto.txt"


def ensure(*, log: Path) -> None:
    """Fetch the jars that are not cached, and install moto from its lock file if it is not.

    Outside CI a failure is only printed.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or pip failed.
    """
    with optional("S3"):
        CLIENT.ensure(log=log)
        if moto_python() is None:
            _install_moto(log)


def moto_python() -> Path | None:
    """Return the Python of moto's environment, or None if moto is not installed yet."""
    python = _place() / "bin" / "python"
    return python if python.exists() else None


def _place() -> Path:
    """Return the directory of moto's environment, which is named after the lock file and the Python."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    lock = (_CHECKOUT / "requirements" / _LOCK).read_bytes()
    digest = hashlib.sha256(f"{sys.base_prefix} {sys.version}\n".encode() + lock).hexdigest()
    return Path(cache, "anchorbolt", f"moto-{digest[:16]}")


def _install_moto(log: Path) -> None:
    place = _place()
    say("installing moto, the S3 of the tests")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="installing-") as scratch:
        environment = VirtualEnvironment(_CHECKOUT, Path(scratch, "moto"))
        run(
            [base_python(), "-m", "venv", str(environment.directory)], log=log, on_failure="Does this Python have venv?"
        )
        environment.install(_LOCK)
        try:
            # Its own Python finds the packages beside it; only the other programs hold the directory's old name.
            os.rename(environment.directory, place)
        except OSError as error:
            # Another set-up was faster.
            if moto_python() is None:
                raise SetUpError(f"cannot rename {environment.directory} to {place}: {error}") from error
    say(f"moto in {place}")
