"""Find the jars of Kafka, which the tests start, and of Spark's connector for it, or fetch them (`maven_jars`)."""

from pathlib import Path

from hbase_artefacts import require_java
from maven_jars import JarList
from progress import optional

BROKER = JarList("kafka.txt", "kafka")
CONNECTOR = JarList("spark-kafka.txt", "spark-kafka")


def ensure(java_home: str | None, *, log: Path) -> None:
    """Fetch the jars that are not cached, and look for a Java that can run Kafka: the same as for HBase.

    Outside CI a failure is only printed.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or there is no suitable Java.
    """
    with optional("Kafka"):
        BROKER.ensure(log=log)
        CONNECTOR.ensure(log=log)
        require_java("Kafka", java_home)
