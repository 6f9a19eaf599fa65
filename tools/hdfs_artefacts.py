"""Find the jars of HDFS's NameNode and DataNode, which the tests start, or fetch them (`maven_jars`)."""

from pathlib import Path

from hbase_artefacts import require_java
from maven_jars import JarList
from progress import optional

JARS = JarList("hdfs.txt", "hdfs")


def ensure(java_home: str | None, *, log: Path) -> None:
    """Fetch the jars if they are not cached, and look for a Java that can run HDFS: the same as for HBase.

    Outside CI a failure is only printed.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or there is no suitable Java.
    """
    with optional("HDFS"):
        JARS.ensure(log=log)
        require_java("HDFS", java_home)
