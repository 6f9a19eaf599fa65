"""Virtual environments of their own, below the user's cache directory, for programs apart from the checkout's.

What these programs need must not decide which versions Anchorbolt is tested with.
"""

import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from progress import SetUpError, run, say
from virtual_environment import VirtualEnvironment, base_python

_CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class OwnEnvironment:
    """One environment with the packages of one lock file.

    Attributes:
        name: the first part of the directory's name.
        lock: the name of a file in requirements/.
        purpose: what is installed, for the line on the terminal.
        from_source: whether a package comes as source, so that pip needs what builds it.
    """

    name: str
    lock: str
    purpose: str
    from_source: bool = False

    def python(self) -> Path | None:
        """Return the Python of the environment, or None if it is not installed yet."""
        python = self._place() / "bin" / "python"
        return python if python.exists() else None

    def ensure(self, *, log: Path) -> None:
        """Install the environment if it is missing.

        Args:
            log: the file to append pip's output to.

        Raises:
            SetUpError: Python or pip failed.
        """
        if self.python() is None:
            self._install(log)

    def _place(self) -> Path:
        """Return the directory of the environment, which is named after the lock file's text and the Python."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        lock = (_CHECKOUT / "requirements" / self.lock).read_bytes()
        digest = hashlib.sha256(f"{sys.base_prefix} {sys.version}\n".encode() + lock).hexdigest()
        return Path(cache, "anchorbolt", f"{self.name}-{digest[:16]}")

    def _install(self, log: Path) -> None:
        place = self._place()
        say(f"installing {self.purpose}")
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="installing-") as scratch:
            environment = VirtualEnvironment(_CHECKOUT, Path(scratch, self.name))
            run(
                [base_python(), "-m", "venv", str(environment.directory)],
                log=log,
                on_failure="Does this Python have venv?",
            )
            if self.from_source:
                environment.install("build.txt")
            environment.install(self.lock)
            try:
                # Its own Python finds the packages beside it; only the other programs hold the directory's old name.
                os.rename(environment.directory, place)
            except OSError as error:
                # Another set-up was faster.
                if self.python() is None:
                    raise SetUpError(f"cannot rename {environment.directory} to {place}: {error}") from error
        say(f"{self.name} in {place}")


MOTO = OwnEnvironment("moto", "moto.txt", purpose="moto, the S3 of the tests")
OTHER_SYSTEMS = OwnEnvironment(
    "other-systems", "other_systems.txt", purpose="Bytewax and streamparse, for docs/your_topology.md", from_source=True
)
BYTEWAX = OwnEnvironment("bytewax", "bytewax.txt", purpose="Bytewax, for make bench")
FLINK = OwnEnvironment(
    "flink", "flink.txt", purpose="Flink's Python API (400 MB), which Anchorbolt is compared with", from_source=True
)
DOCS = OwnEnvironment("docs", "docs.txt", purpose="MkDocs and its plugins, for the documentation's site")
