"""The provider for HBase: its connections, its settings, and a driver that is not installed."""

import pickle
import subprocess
import sys
from typing import Any

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.hbase.provider import HBaseStateProvider
from tests.state_backends.same_everywhere import work_in_threads


@pytest.mark.slow
def test_threads_do_not_get_each_others_answers(hbase_provider: HBaseStateProvider, ns: str) -> None:
    work_in_threads(hbase_provider, ns, 10)


@pytest.mark.slow
def test_storages_of_a_process_share_connections_and_the_last_one_closes_them(
    hbase_provider: HBaseStateProvider, ns: str
) -> None:
    storages = [hbase_provider.open(f"{ns}{number}") for number in range(20)]
    for storage in storages:
        storage.claim()
    client = vars(storages[0])["_table"]._client
    [connection] = client._idle
    for storage in storages[:-1]:
        storage.close()
    assert storages[-1].claim() == Fence(2, 0)
    assert client._idle == [connection]
    storages[-1].close()
    assert client._idle == []
    assert not connection.socket.is_open()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"table": ""}, "tableName"),
        ({"table": "a b"}, "tableName"),
        ({"column_family": "a:b"}, "columnFamily"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"timeout_ms": 0}, "timeout"),
        ({"transport": "http"}, "transport"),
        ({"protocol": "json"}, "protocol"),
        ({"largest_value": 0}, "largestValue"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        HBaseStateProvider(**{"table": "t", "column_family": "f", **options})


def test_a_provider_crosses_to_another_process_and_says_where_it_keeps_its_data() -> None:
    provider = HBaseStateProvider("space:words", "state", host="example.org", port=9091)
    assert pickle.loads(pickle.dumps(provider)) == provider  # noqa: S301
    assert "example.org:9091" in provider.describe()
    assert "space:words" in provider.describe()


def test_where_the_driver_is_not_installed_that_is_said_with_the_command_that_does_it() -> None:
    code = "import sys; sys.modules['happybase'] = None; import anchorbolt.state_backends.hbase.provider"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ConfigError" in ended.stderr
    assert "pip install 'anchorbolt[hbase]'" in ended.stderr
