"""A table of HBase with state in the layout of Storm's HBaseKeyValueState, made without the tested code."""

import itertools
import uuid
from collections.abc import Mapping
from contextlib import closing

import happybase

from anchorbolt.state_backends.hbase.provider import HBaseStateProvider
from tests.servers.hbase_server import HBaseServer

FAMILY = "cf"
_CELL = b"cf:s"


class StormTable:
    """A table of its own name for each test; `put` replaces hashes of Storm's as `HSET` after `DEL` does in Redis."""

    def __init__(self, server: HBaseServer, name: str = "") -> None:
        self.name = name or f"storm-{uuid.uuid4().hex[:8]}"
        self._server = server
        self._connection = server.connection()
        self._times = itertools.count(1000)  # a put must be newer than the delete before it
        if self.name.encode() not in self._connection.tables():
            self._connection.create_table(self.name, {FAMILY: {}})
        self._table: happybase.Table = self._connection.table(self.name)

    def provider(self, **options: object) -> HBaseStateProvider:
        place = {each: getattr(self._server, each) for each in ("host", "port", "transport", "protocol")}
        chosen = {"table": self.name, "column_family": FAMILY, "timeout_ms": 20_000, "create_table": True}
        return HBaseStateProvider(**{**place, **chosen, **options})

    def put(self, name: str, fields: Mapping[bytes, bytes]) -> None:
        key = name.encode()
        if key.endswith((b"$prepare", b"$txid")):
            old = [key]
            new = {key: {b"cf:" + field: value for field, value in fields.items()}} if fields else {}
        else:
            old = [row for row, _ in self._table.scan(row_prefix=key + b"$key:")]
            new = {key + b"$key:" + field: {_CELL: value} for field, value in fields.items()}
        with self._table.batch(timestamp=next(self._times)) as batch:
            for row in old:
                batch.delete(row)
        with self._table.batch(timestamp=next(self._times)) as batch:
            for row, cells in new.items():
                batch.put(row, cells)

    def everything(self) -> dict[str, dict[bytes, bytes]]:
        """Return all hashes, by name."""
        found: dict[str, dict[bytes, bytes]] = {}
        for row, cells in self._table.scan():
            name, is_entry, field = row.partition(b"$key:")
            entries = {field: cells[_CELL]} if is_entry else {each[3:]: value for each, value in cells.items()}
            found.setdefault(name.decode(), {}).update(entries)
        return found

    def close(self) -> None:
        self._connection.close()


def tables(server: HBaseServer) -> list[str]:
    with closing(server.connection()) as connection:
        return [name.decode() for name in connection.tables()]
