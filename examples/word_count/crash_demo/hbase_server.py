"""An HBase of the demo's own with its Thrift server, started as the tests do, from the jars that set-up fetched."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crash_demo.job_process import DemoError

__all__ = ["hbase"]

_CHECKOUT = Path(__file__).resolve().parents[3]


@contextmanager
def hbase(work: Path) -> Iterator[Mapping[str, Any]]:
    """Master, region server and ZooKeeper in one process, and a Thrift server."""
    # The demo runs from a checkout, and HBase takes more than a few lines to start.
    sys.path.append(str(_CHECKOUT))
    from tests.servers.hbase_server import HBaseProgram, HBaseServer

    try:
        program = HBaseProgram.installed()
    except LookupError as missing:
        raise DemoError(f"{missing}. `make demo PROVIDER=hbase` does so, too.") from missing
    server = HBaseServer(program, work / "hbase")
    try:
        server.start()
        yield {
            "topology.state.provider": "hbase",
            "topology.state.provider.config": {
                "tableName": "anchorbolt",
                "columnFamily": "state",
                "createTable": True,
                "thriftConfig": {"host": server.host, "port": server.port, "timeout": 20_000},
            },
        }
    finally:
        server.kill()
