"""Providers for the HBase of a test, with time enough for a machine that has much else to do."""

from typing import Any

from anchorbolt.state_backends.hbase.provider import HBaseStateProvider
from tests.support.hbase_server import HBaseServer

TABLE, FAMILY = "anchorbolt", "state"


def provider_of(server: HBaseServer, **options: Any) -> HBaseStateProvider:
    """Return a provider for a server, in one table that is made when it is missing."""
    chosen = {
        "table": TABLE,
        "column_family": FAMILY,
        "host": server.host,
        "port": server.port,
        "timeout_ms": 20_000,
        "transport": server.transport,
        "protocol": server.protocol,
        "create_table": True,
    }
    return HBaseStateProvider(**{**chosen, **options})
