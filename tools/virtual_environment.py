"""The virtual environment of a checkout: made from the lock files, and made again when they or the Python change.

Installs nothing outside its directory, except Debian's `venv` package (as root) if Python lacks it.
"""

import hashlib
import importlib.util
import re
import shutil
import sys
import time
from pathlib import Path

from progress import SetUpError, apt_install, is_root_on_debian, run, say

_STAMP = "anchorbolt-lock.stamp"
_PROJECT_STAMP = "anchorbolt-project.stamp"
_LOG = "anchorbolt-setup.log"

_CHECK_INDEX = "Check that pip reaches its package index (proxy, mirror, `pip config list`) and run the command again."

# Locked together with PySpark, so they are left out of the lock as well when SPARK= names another version.
_SPARKS_OWN = ("pyspark", "py4j")


class VirtualEnvironment:
    """One virtual environment of a checkout, made from these of its lock files, in this order.

    Attributes:
        log: the file with everything that pip and apt-get printed.
    """

    def __init__(
        self,
        checkout: Path,
        directory: Path,
        *,
        spark: str | None = None,
        locks: tuple[str, ...] = ("build.txt", "dev.txt"),
    ) -> None:
        self.checkout = checkout
        self.locks = locks
        self.directory = directory
        self.spark = spark
        self.python = directory / "bin" / "python"
        self.log = directory / _LOG

    def ensure(self, *, project: bool = True) -> None:
        """Make the environment if it is missing or out of date; with `project`, install the project for editing.

        Raises:
            SetUpError: Python, pip or the package index failed.
        """
        stamp = self._stamp()
        if _read(self.directory / _STAMP) != stamp:
            started = time.monotonic()
            self._create()
            self._install_locked()
            (self.directory / _STAMP).write_text(stamp)
            say(f"{self.directory.name} is ready after {time.monotonic() - started:.0f} s")
        stamp = self._project_stamp()
        if project and _read(self.directory / _PROJECT_STAMP) != stamp:
            self._install_project()
            (self.directory / _PROJECT_STAMP).write_text(stamp)

    def install(self, lock_file: str) -> None:
        """Install a lock file; pip checks each package against its hash.

        Raises:
            SetUpError: pip failed.
        """
        self._pip("--require-hashes", "-r", self.checkout / "requirements" / lock_file)

    def uninstall_with_pip(self, *packages: str) -> None:
        """Remove packages and pip itself; does nothing if pip is gone already.

        Raises:
            SetUpError: pip failed.
        """
        if not list(self.directory.glob("lib/python*/site-packages/pip")):
            return
        command: list[str | Path] = [self.python, "-m", "pip", "uninstall", "--yes", *packages, "pip"]
        run(command, log=self.log, on_failure="Remove the environment and run the command again.")

    def _stamp(self) -> str:
        # The text of these scripts is no part of it: the lock files alone decide what is installed.
        locks = [self.checkout / "requirements" / name for name in self.locks]
        return f"{base_python()} {sys.version}\n{_digest(*locks)}\n{self.spark}\n"

    def _project_stamp(self) -> str:
        # The part of pyproject.toml that the installed metadata come from; the settings of the tools follow after it.
        metadata = (self.checkout / "pyproject.toml").read_text().partition("\n[tool.")[0]
        return metadata + (self.checkout / "anchorbolt" / "__init__.py").read_text()

    def _create(self) -> None:
        version = ".".join(map(str, sys.version_info[:3]))
        if importlib.util.find_spec("ensurepip") is None:
            self._install_ensurepip()
        say(f"making {self.directory.name} with Python {version}")
        # Make a new environment instead of updating the old one: packages that left the lock files must go as well.
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        run([base_python(), "-m", "venv", self.directory], log=self.log, on_failure="Does this Python have venv?")

    def _install_ensurepip(self) -> None:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        hint = f"This Python came without venv: install it (on Debian and Ubuntu: apt-get install {package})."
        if not is_root_on_debian() or not base_python().startswith("/usr/bin/"):
            raise SetUpError(hint)
        self.directory.mkdir(parents=True, exist_ok=True)
        apt_install(package, log=self.log, on_failure=hint)

    def _install_locked(self) -> None:
        size = "" if self.locks == ("dist.txt",) else " (the first time some minutes: PySpark alone is 450 MB)"
        say(f"installing the packages of {' and '.join(self.locks)}{size}")
        if self.spark is None:
            for lock in self.locks:
                self.install(lock)
            return
        self.install("build.txt")
        others = self.directory / "requirements-without-spark.txt"
        locked = (self.checkout / "requirements" / "dev.txt").read_text()
        others.write_text(without_packages(locked, _SPARKS_OWN))
        self._pip("--require-hashes", "-r", others)
        self._pip(f"pyspark=={self.spark}")

    def _install_project(self) -> None:
        say(f"installing the project into {self.directory.name} for editing")
        self._pip("--no-deps", "--editable", self.checkout)
        if self.spark is None:  # the project may refuse the PySpark version that SPARK= names
            disagree = "pyproject.toml and requirements/ disagree: run `make lock`."
            run([self.python, "-m", "pip", "check"], log=self.log, on_failure=disagree)

    def _pip(self, *arguments: str | Path) -> None:
        # Without build isolation, pip builds source packages with the locked tools of build.txt.
        options = ["--no-build-isolation", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
        command: list[str | Path] = [self.python, "-m", "pip", "install", *options, *arguments]
        run(command, log=self.log, on_failure=_CHECK_INDEX)


def without_packages(lock: str, names: tuple[str, ...]) -> str:
    """Return the text of a lock file without the named packages and their hashes."""
    entries = re.split(r"(?m)^(?=\S)", lock)
    return "".join(entry for entry in entries if re.split(r"[=\s]", entry, maxsplit=1)[0] not in names)


def base_python() -> str:
    """Return the Python that this environment was made from: the environment itself may be removed."""
    # Its names differ: within an activated environment it is another one than outside.
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
