"""One Spark session for all tests of this folder, built as the command builds it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine.spark.session import build_session

# Spark with its JVM and worker processes takes seconds to start, and so does every driver that a test kills.
SPARK_MARKS = [pytest.mark.slow, pytest.mark.timeout(300)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for mark in SPARK_MARKS:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
<<<<<<< HEAD
    """A session on local[2]; a test leaves its settings as they are."""
    conf = {
        "spark.python.worker.faulthandler.enabled": True,
        "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
    }
=======
    """A session on local[2] with a directory of its own; a test leaves its settings as they are."""
    local = tmp_path_factory.getbasetemp() / "spark-local"  # for the tests of other folders, too, in one process
    conf = {"spark.python.worker.faulthandler.enabled": True, "spark.local.dir": str(local)}
>>>>>>> i22
    session = build_session("tests", "local[2]", SparkOptions(conf=conf))
    yield session
    session.stop()
