"""The Spark session of the engine's tests; and each test begins without messages."""

import pytest

from tests.engine.spark.conftest import spark as spark
from tests.reliability import jobs


@pytest.fixture(autouse=True)
def _no_messages() -> None:
    jobs.forget()
