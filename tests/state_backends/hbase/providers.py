"""Providers for the HBase of a test, the data that its tests commit and stage, and the table's content after it."""

from collections.abc import Callable
from typing import Any

import happybase

from anchorbolt.state_backends.contract import Fence, Seal, StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.testing.conformance.base import CODEC, Items, stage
from tests.servers.hbase_server import HBaseServer

TABLE, FAMILY = "anchorbolt", "state"
DATA, METADATA = f"{FAMILY}:s".encode(), f"{FAMILY}:books".encode()
OLD = {b"%d" % number: b"old" for number in range(600)}
UPDATES: dict[bytes, bytes | None] = {b"%d" % number: b"new" if number % 5 else None for number in range(300, 1500)}
UPDATED = {key: value for key, value in UPDATES.items() if value is not None}
NEW = {key: value for key, value in {**OLD, **UPDATES}.items() if value is not None}

CALLS: dict[str, Callable[[StateStorage], object]] = {
    "head": lambda storage: storage.head(),
    "claim": lambda storage: storage.claim(),
    "raise_fence": lambda storage: storage.raise_fence(Fence(9, 0)),
    "get_many": lambda storage: storage.get_many([b"a", b"b"]),
    "scan": lambda storage: list(storage.scan()),
    "stage": lambda storage: stage(storage, [(b"a", b"1")], fence=Fence(9, 0)),
    "seal": lambda storage: storage.seal(Fence(9, 0), "0" * 32, Seal(1, 1)),
    "commit": lambda storage: storage.commit(Fence(9, 0), 0, "0" * 32),
    "rollback": lambda storage: storage.rollback(Fence(9, 0)),
    "write": lambda storage: storage.write(Fence(9, 0), {b"a": b"1"}, CODEC),
}


def provider_of(server: HBaseServer, **options: Any) -> HBaseStateProvider:
    """Return a provider for a server, in one table that is made when it is missing, with time for a busy machine."""
    place = {name: getattr(server, name) for name in ("host", "port", "transport", "protocol")}
    chosen = {"table": TABLE, "column_family": FAMILY, "timeout_ms": 20_000, "create_table": True}
    return HBaseStateProvider(**{**place, **chosen, **options})


def sliced(updates: dict[bytes, bytes | None]) -> list[Items]:
    items = list(updates.items())
    return [items[start : start + 400] for start in range(0, len(items), 400)]


def rows(table: happybase.Table, ns: str) -> dict[str, bytes]:
    """Return the rows of a namespace; the names are without the namespace's."""
    found = table.scan(row_prefix=f"{ns}$".encode())
    return {row.decode()[len(ns) :]: next(iter(columns.values())) for row, columns in found}
