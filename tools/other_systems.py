"""Get what docs/your_topology.md compares with Anchorbolt: Storm, streamparse, Bytewax, Flink's Python API.

Also older releases of Storm, which read the state that `anchorbolt migrate convert` writes for them.
"""

import shutil
from pathlib import Path

from hbase_artefacts import find_java, require_java
from maven_jars import JarList
from own_environment import FLINK, OTHER_SYSTEMS
from progress import SetUpError, optional

STORM = JarList("storm.txt", "storm")
# One release of each format of its state, by the first release with the format.
STORMS = {
    **{release: JarList(f"storm-{release}.txt", f"storm-{release}") for release in ("1.0", "1.1", "1.2", "2.0")},
    "2.6": STORM,
}
STORM_HBASE = JarList("storm-hbase.txt", "storm-hbase")

_GET_JDK = (
    "Install a JDK 17 or 21 (Debian and Ubuntu: apt-get install openjdk-17-jdk-headless; Fedora: dnf install "
    "java-21-openjdk-devel; macOS: brew install openjdk@21), or let JAVA_HOME name one."
)


def ensure(java_home: str | None, *, log: Path) -> None:
    """Fetch the jars and install the environments that are missing, and look for a Java and for its compiler.

    Outside CI a failure is only printed, and the other systems are installed.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, pip failed, or there is no JDK.
    """
    with optional("Storm"):
        for jars in (*STORMS.values(), STORM_HBASE):
            jars.ensure(log=log)
        require_java("Storm", java_home)
        if java_compiler() is None:
            raise SetUpError(f"there is no javac on this machine. {_GET_JDK}")
    with optional("Bytewax and streamparse"):
        OTHER_SYSTEMS.ensure(log=log)
    with optional("Flink"):
        FLINK.ensure(log=log)


def java_compiler() -> str | None:
    """Return the path of `javac`: the one beside the Java that set-up found, else the one on the PATH."""
    java_home = find_java()
    beside = Path(java_home, "bin", "javac") if java_home else None
    return str(beside) if beside and beside.exists() else shutil.which("javac")
