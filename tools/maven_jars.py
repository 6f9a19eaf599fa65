"""Jars that the tests need: each is pinned by version and SHA-256, and fetched from Maven's central repository.

They are kept below the user's cache directory, outside every checkout. A directory of jars is named after the list that
pins them; it appears only when it is complete. Maven downloads the jars, so that the user's own mirror, proxy and
certificates (`~/.m2/settings.xml`) apply.
"""

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from progress import SetUpError, apt_install, is_root_on_debian, run, say

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>anchorbolt</groupId><artifactId>jars-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
# The list names every jar that is needed. Maven's own tree of dependencies would be three times as long.
_DEPENDENCY = """\
    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""

_GET_MAVEN = (
    "Install Maven so that `mvn` is on the PATH (Debian and Ubuntu: apt-get install maven; Fedora: dnf install maven; "
    "macOS: brew install maven) and run the command again."
)
_GET_JARS = "Check that Maven reaches its central repository (mirror, ~/.m2/settings.xml) and run the command again."


@dataclass(frozen=True)
class Jar:
    """One pinned file."""

    sha256: str
    group: str
    name: str
    version: str

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.name}-{self.version}.jar"


@dataclass(frozen=True)
class JarList:
    """The jars that a file in `tools/jars` lists."""

    file_name: str
    prefix: str  # of the name of the directory in the cache

    @property
    def _path(self) -> Path:
        return Path(__file__).resolve().parent / "jars" / self.file_name

    def place(self) -> Path:
        """Return the directory for the jars, which is named after their list."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        digest = hashlib.sha256(self._path.read_bytes()).hexdigest()
        return Path(cache, "anchorbolt", f"{self.prefix}-{digest[:16]}")

    def cached(self) -> Path | None:
        """Return the directory of the pinned jars, or None if they have not been fetched yet."""
        directory = self.place()
        return directory if directory.is_dir() else None

    def pinned(self) -> list[Jar]:
        """Read the list."""
        jars = []
        for line in self._path.read_text().splitlines():
            if line and not line.startswith("#"):
                sha256, coordinates = line.split()
                jars.append(Jar(sha256, *coordinates.split(":")))
        return jars

    def ensure(self, *, log: Path) -> None:
        """Fetch the jars if they are not cached. Raises `SetUpError` as `fetch` does."""
        if self.cached() is None:
            say(f"jars in {fetch(self.pinned(), self.place(), log=log)}")


def fetch(jars: list[Jar], directory: Path, *, log: Path) -> Path:
    """Download the jars, check them, and move them to `directory` in one step.

    Raises:
        SetUpError: Maven is missing or failed, or a jar is not the pinned one.
    """
    say(f"fetching {len(jars)} jars with Maven: {jars[0].name} {jars[0].version} and what it needs")
    maven = _maven(log)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="fetching-") as scratch:
        pom, fetched = Path(scratch, "pom.xml"), Path(scratch, "jars")
        pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(**vars(jar)) for jar in jars)))
        options = ["--batch-mode", "--no-transfer-progress", f"--file={pom}"]
        goal = [_PLUGIN, "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
        run([maven, *options, *goal], log=log, on_failure=_GET_JARS)
        check(jars, fetched)
        try:
            os.rename(fetched, directory)
        except OSError:
            # Another set-up was faster, and it has checked its jars as well.
            if not directory.is_dir():
                raise
    return directory


def check(jars: list[Jar], directory: Path) -> None:
    """Compare the files in a directory with the list.

    Raises:
        SetUpError: a file is missing, is not listed, or has other bytes.
    """
    expected = {jar.file: jar.sha256 for jar in jars}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        raise SetUpError(
            f"what Maven fetched is not what the lists in tools/jars pin: {', '.join(wrong)}. Remove these artefacts "
            "from Maven's local repository (~/.m2/repository) and check the mirror that it uses."
        )


def _maven(log: Path) -> str:
    maven = shutil.which("mvn")
    if maven is None and is_root_on_debian():
        apt_install("maven", log=log, on_failure=_GET_MAVEN)
        maven = shutil.which("mvn")
    if maven is None:
        raise SetUpError(f"there is no Maven on this machine. {_GET_MAVEN}")
    return maven
