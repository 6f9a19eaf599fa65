"""Find the jars of HBase and its Thrift server that the tests start, or fetch them (`maven_jars`)."""

import os
import shutil
from pathlib import Path

from java_runtime import inspect
from maven_jars import JarList
from progress import SetUpError, optional

SUPPORTED = (17, 21)  # HBase uses Hadoop, and Hadoop does not start on Java 24 and later

JARS = JarList("hbase.txt", "hbase")
_JAVA_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines")

_GET_JAVA = (
    "Install a Java runtime 17 or 21 (Debian and Ubuntu: apt-get install openjdk-17-jre-headless), or let JAVA_HOME "
    "name one."
)


def ensure(java_home: str | None, *, log: Path) -> None:
    """Fetch the jars if they are not cached, and look for a Java that can run HBase.

    Outside CI a failure is only printed.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or there is no suitable Java.
    """
    with optional("HBase"):
        JARS.ensure(log=log)
        require_java("HBase", java_home)


def require_java(server: str, java_home: str | None) -> None:
    """Look for a Java that can run HBase, or another server that needs the same versions.

    Raises:
        SetUpError: there is none.
    """
    if find_java(java_home) is None:
        raise SetUpError(f"there is no Java 17 or 21 for {server} on this machine. {_GET_JAVA}")


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
