"""State in one column family of an HBase table, with Storm's row names, through HBase's Thrift 1 server.

| row | column | content |
|---|---|---|
| `<ns>$key:<key>` | `s` | `+` and the value, or `-` where the key was deleted |
| `<ns>$prepare$<version>$<attempt>.<label>$<slice>.<chunk>` | `s` | staged updates: a chunk of a slice, up to 800 kB |
| `<ns>$txid` | `books` | the metadata, with a checksum: fence, txid, winner, codec, attempts, what `write` put |
| `$namespaces` | `<ns>` | empty; the namespace exists |

HBase changes only single rows atomically. So one cell, the metadata, decides everything. Only a check-and-put changes
it, and no two values of the cell are equal. All other writes may arrive twice, late, or without effect:

- **Staged rows** are not read until the metadata counts their slice. An attempt is registered in the metadata before
  its first row is written. So a process that lists rows, then reads the metadata, may remove the rows of attempts that
  the metadata does not contain.
- **Data rows** are written by commits only, at timestamps from the metadata: `epoch + version * 64 + group`, where
  `version` counts the commits and a group is one slice (or several, of more than 64). A commit that is repeated writes
  the same cells again. A delayed commit (its driver slept, or a message was in a buffer) writes cells that are older
  than those of the commits after it, so readers never see them. `epoch` is the region server's clock when the namespace
  was created: after an operator deleted all rows and started over, neither old cells and delete markers nor late
  writes of the old namespace hide new cells.
- **A deleted key** keeps its row, with a cell that marks it as deleted. HBase drops its own delete markers in a major
  compaction, and then a cell of a delayed commit would be visible. So deleted keys use space until the administrator
  removes them: docs/providers/hbase.md.

The check-and-put that promotes the attempt decides a commit. The groups are applied and counted one after another; the
last check-and-put sets the committed txid. A commit can stop after any step; calling it again resumes it.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from anchorbolt.config.providers import HBaseSettings
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import SizeLimits, StateProvider
from anchorbolt.state_backends.hbase.client import HBaseClient
from anchorbolt.state_backends.hbase.errors import server_name
from anchorbolt.state_backends.hbase.layout import LONGEST_ROW, METADATA, NAMESPACES_ROW, NamespaceRows
from anchorbolt.state_backends.hbase.storage import HBaseStateStorage
from anchorbolt.state_backends.hbase.table import HBaseTable

_FRAMED_BYTES = 2 * 1024 * 1024
_CELL_BYTES = 10 * 1024 * 1024
_ROOM = 66_000  # bytes of a message or cell for its frame and the row's name, which is sent once or twice


@dataclass(frozen=True)
class HBaseStateProvider(HBaseSettings, StateProvider):
    """Keeps all namespaces in one column family of an HBase 2 table, through its Thrift 1 server.

    Attributes:
        table: Name of the table, `namespace:table` if it is in a namespace of HBase.
        column_family: Name of the column family. It must not have a TTL.
        host: Name or address of the Thrift server.
        port: Its TCP port.
        timeout_ms: Time in milliseconds for one exchange with the server, connecting and repetitions included.
        transport: "buffered", or "framed" for a server started with `-f`, `-nonblocking`, `-hsha` or
            `-threadedselector`.
        protocol: "binary", or "compact" for a server started with `-c`.
        create_table: Whether to create a missing table at the first use, which takes 30 s at most.
        tls: Encryption settings; None means no encryption. May be a mapping with the keys of `TlsSettings`.
        largest_value: Bytes of the largest value to accept; None means the server's default limit: some 10 MB on a
            buffered and 2 MB on a framed server.
    """

    commit_carries_updates = True

    def open(self, namespace: str) -> HBaseStateStorage:
        """Open a namespace. The first call of a method connects.

        Raises:
            ConfigError: A TLS file cannot be read, or `namespace` is not a possible name.
        """
        rules.check_namespace(namespace)
        return HBaseStateStorage(namespace, HBaseClient.acquire(self), self._limits(namespace))

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        """Read one row of names, then one row for each name."""
        if not re.fullmatch(r"[A-Za-z0-9_.:$-]*", prefix):
            return
        with closing(HBaseTable(HBaseClient.acquire(self), None)) as table:
            names = [name.decode("ascii", "replace") for name in table.columns(NAMESPACES_ROW, prefix.encode())]
            # A namespace is listed before its metadata is written, so the metadata may be missing. It may also be
            # deleted.
            metadata_rows = {name: NamespaceRows(name).metadata for name in names}
            found = {row for cells in table.read_many(METADATA, list(metadata_rows.values())) for row in cells}
        for name, row in metadata_rows.items():
            if row in found and rules.is_namespace(name):
                yield name

    def describe(self) -> str:
        return f"{server_name(self)}, table {self.table}, column family {self.column_family}"

    def _limits(self, namespace: str) -> SizeLimits:
        key = LONGEST_ROW - len(NamespaceRows(namespace).data)
        cells = "hbase.client.keyvalue.maxsize and hbase.server.keyvalue.maxsize"
        if self.transport == "framed":
            default, names = _FRAMED_BYTES, f"hbase.regionserver.thrift.framed.max_frame_size_in_mb, {cells}"
        else:
            default, names = _CELL_BYTES, cells
        advice = f"Raise {names} on the servers, and then largestValue in the provider's configuration"
        return SizeLimits(key, self.largest_value or default - _ROOM, advice)
