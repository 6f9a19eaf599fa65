"""Counts what a process exchanges with HBase's Thrift server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from anchorbolt.state_backends.hbase import client


class HBaseTraffic:
    """The bytes that this process has sent and received."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def counted_traffic() -> Iterator[HBaseTraffic]:
    """Count for as long as the context lasts. Other processes, such as Spark's workers, are not counted."""
    traffic = HBaseTraffic()
    read, write = client._Socket.read, client._Socket.write

    def counted_read(socket: Any, size: int) -> Any:
        data = read(socket, size)
        traffic.bytes += len(data)
        return data

    def counted_write(socket: Any, data: Any) -> None:
        traffic.bytes += len(data)
        write(socket, data)

    with mock.patch.multiple(client._Socket, read=counted_read, write=counted_write):
        yield traffic
