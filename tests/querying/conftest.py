"""Stores of every kind, and topologies that ran on them."""

from tests.migration_tools.conftest import name, source, store  # noqa: F401 - fixtures
from tests.state_backends.conftest import (  # noqa: F401 - fixtures
    hbase_provider,
    memory_provider,
    redis_cluster_provider,
    redis_provider,
    sqlite_provider,
)
