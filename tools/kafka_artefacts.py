"""Find the jars of Kafka, which the tests start, and of Spark's connector for it, or fetch them (`maven_jars`)."""

import os
from pathlib import Path

from hbase_artefacts import find_java
from maven_jars import JarList
from progress import SetUpError, say

BROKER = JarList("kafka-jars.txt", "kafka")
CONNECTOR = JarList("spark-kafka-jars.txt", "spark-kafka")


def ensure(java_home: str | None, *, log: Path) -> None:
    """Fetch the jars that are not cached, and look for a Java that can run Kafka: the same as for HBase.

    Outside CI a failure is only printed: the tests that need Kafka are then skipped, and all others run.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or there is no suitable Java.
    """
    try:
        BROKER.ensure(log=log)
        CONNECTOR.ensure(log=log)
        if find_java(java_home) is None:
            raise SetUpError(
                "there is no Java 17 or 21 for Kafka on this machine. Install one, or let JAVA_HOME name it."
            )
    except SetUpError as error:
        if os.environ.get("CI", "").lower() in {"true", "1", "yes"}:
            raise
        say(f"going on without Kafka, its tests will be skipped: {error}")
