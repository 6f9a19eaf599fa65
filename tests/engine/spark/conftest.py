"""One Spark session for all tests of this folder, built as the command builds it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine.spark.session import build_session, java_exit_code
from tests.servers.s3_server import S3Program
from tests.servers.spark_standalone import SparkStandalone
from tests.support.stores import WORKERS

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
    """A session on local[2], with S3 and a directory of its own; a test leaves its settings as they are."""
    local = tmp_path_factory.getbasetemp() / "spark-local"  # for the tests of other folders, too, in one process
    conf = {"spark.python.worker.faulthandler.enabled": True, "spark.local.dir": str(local)}
    session = build_session("tests", "local[2]", SparkOptions(jars=_s3_jars(), conf=conf), workers=WORKERS)
    yield session
    ended = java_exit_code(0)
    assert ended is None, f"the session's Java process has ended, with exit code {ended}"
    session.stop()


def _s3_jars() -> str | None:
    try:
        return S3Program.installed().client_jars
    except LookupError:  # the tests with S3 are then skipped
        return None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkStandalone]:
    """Spark's own master and workers, as processes."""
    standalone = SparkStandalone(tmp_path)
    try:
        standalone.start()
        yield standalone
    finally:
        standalone.stop()
