"""An open namespace for each test, and its table."""

from collections.abc import Iterator
from contextlib import closing

import happybase
import pytest

from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.testing.conformance.base import new_namespace
from tests.servers.hbase_server import HBaseServer
from tests.state_backends.hbase.providers import TABLE


@pytest.fixture
def ns() -> str:
    return new_namespace()


@pytest.fixture
def storage(hbase_provider: HBaseStateProvider, ns: str) -> Iterator[StateStorage]:
    with closing(hbase_provider.open(ns)) as storage:
        yield storage


@pytest.fixture
def table(hbase_server: HBaseServer, hbase_provider: HBaseStateProvider) -> Iterator[happybase.Table]:
    list(hbase_provider.namespaces())  # makes the table
    with closing(hbase_server.connection()) as connection:
        yield connection.table(TABLE)
