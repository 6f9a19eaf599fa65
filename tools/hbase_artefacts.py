"""Find the jars of HBase and its Thrift server that the tests start, or fetch them from Maven's central repository.

The jars are kept below the user's cache directory, outside every checkout. `hbase-jars.txt` pins each of them by
version and SHA-256. The directory of jars is named after that list; it appears only when it is complete. Maven
downloads the jars, so that the user's own mirror, proxy and certificates (`~/.m2/settings.xml`) apply.
"""

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from java_runtime import inspect
from progress import SetUpError, apt_install, is_root_on_debian, run, say

SUPPORTED = (17, 21)  # HBase uses Hadoop, and Hadoop does not start on Java 24 and later

_PINNED = Path(__file__).resolve().parent / "hbase-jars.txt"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>anchorbolt</groupId><artifactId>hbase-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
# The list names every jar that is needed. Maven's own tree of dependencies would be three times as long.
_DEPENDENCY = """\
    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""
_JAVA_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines")

_GET_MAVEN = (
    "Install Maven so that `mvn` is on the PATH (Debian and Ubuntu: apt-get install maven; Fedora: dnf install maven; "
    "macOS: brew install maven) and run the command again."
)
_GET_JARS = "Check that Maven reaches its central repository (mirror, ~/.m2/settings.xml) and run the command again."
_GET_JAVA = (
    "Install a Java runtime 17 or 21 (Debian and Ubuntu: apt-get install openjdk-17-jre-headless), or let JAVA_HOME "
    "name one."
)


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


def ensure(java_home: str | None, *, log: Path) -> None:
    """Fetch the jars if they are not cached, and look for a Java that can run HBase.

    Outside CI a failure is only printed: the tests that need HBase are then skipped, and all others run.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or there is no suitable Java.
    """
    try:
        if cached() is None:
            say(f"HBase of {fetch(pinned(), place(), log=log)}")
        if find_java(java_home) is None:
            raise SetUpError(f"there is no Java for HBase on this machine. {_GET_JAVA}")
    except SetUpError as error:
        if os.environ.get("CI", "").lower() in {"true", "1", "yes"}:
            raise
        say(f"going on without HBase, its tests will be skipped: {error}")


def cached() -> Path | None:
    """Return the directory of the pinned jars, or None if they have not been fetched yet."""
    directory = place()
    return directory if directory.is_dir() else None


def place() -> Path:
    """Return the directory for the jars, which is named after their list."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(_PINNED.read_bytes()).hexdigest()
    return Path(cache, "anchorbolt", f"hbase-{digest[:16]}")


def pinned() -> list[Jar]:
    """Read the list of the jars."""
    jars = []
    for line in _PINNED.read_text().splitlines():
        if line and not line.startswith("#"):
            sha256, coordinates = line.split()
            jars.append(Jar(sha256, *coordinates.split(":")))
    return jars


def fetch(jars: list[Jar], directory: Path, *, log: Path) -> Path:
    """Download the jars, check them, and move them to `directory` in one step.

    Raises:
        SetUpError: Maven is missing or failed, or a jar is not the pinned one.
    """
    say("fetching HBase with Maven (56 MB)")
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
            f"what Maven fetched is not what tools/{_PINNED.name} lists: {', '.join(wrong)}. Remove these artefacts "
            "from Maven's local repository (~/.m2/repository) and check the mirror that it uses."
        )


def find_java(java_home: str | None = None) -> str | None:
    """Return the home of a Java that can run HBase, or None.

    Tries `java_home`, JAVA_HOME, the `java` on the PATH and the usual directories, in this order.
    """
    on_path = shutil.which("java")
    homes = [java_home, os.environ.get("JAVA_HOME")]
    programs = [Path(home, "bin", "java") for home in homes if home]
    if on_path:
        programs.append(Path(on_path))
    for directory in _JAVA_PLACES:
        programs += sorted(Path(directory).glob("*/bin/java"))
        programs += sorted(Path(directory).glob("*/Contents/Home/bin/java"))
    for program in programs:
        java = inspect(program)
        if java is not None and java.version in SUPPORTED:
            return str(java.home)
    return None


def _maven(log: Path) -> str:
    maven = shutil.which("mvn")
    if maven is None and is_root_on_debian():
        apt_install("maven", log=log, on_failure=_GET_MAVEN)
        maven = shutil.which("mvn")
    if maven is None:
        raise SetUpError(f"there is no Maven on this machine. {_GET_MAVEN}")
    return maven
