"""Stores of every kind, topologies that ran on them, and the Spark session of the engine's tests."""

from tests.engine.spark.conftest import spark  # noqa: F401 - fixture
from tests.migration_tools.conftest import name, source, store  # noqa: F401 - fixtures
from tests.state_backends.conftest import (  # noqa: F401 - fixtures
    hbase_provider,
    memory_provider,
    redis_cluster_provider,
    redis_provider,
    sqlite_provider,
)
