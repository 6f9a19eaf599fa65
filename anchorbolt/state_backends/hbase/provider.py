"""State in one column family of an HBase table, by Storm's names of rows, through HBase's Thrift 1 server.

| row | column | content |
|---|---|---|
| `<ns>$key:<key>` | `s` | `+` and the value, or `-` where the key was deleted |
| `<ns>$prepare$<version>$<attempt>.<label>$<slice>.<part>` | `s` | staged updates: a part of a slice, 800 kB at most |
| `<ns>$txid` | `books` | the metadata: fence, txid, winner, codec, attempts, what `write` put |
| `$namespaces` | `<ns>` | nothing; says that the namespace exists |

HBase can change one row atomically. So all that decides lies in one cell, `books`, which is only ever moved by a
check-and-put from a value that is like no other before it, and everything else is written so that it may come twice,
late, or for nothing:

- **Staged rows** are unseen until the metadata counts their slice. An attempt is registered there before its first
  row is written, so that rows of an attempt that is not in the metadata are rubbish, and may be swept by anyone who
  listed them before reading it.
- **Data rows** are written by commits only, at timestamps from the metadata: `epoch + version * 64 + group`, where
  `version` counts the commits and a group is one slice (or several, of more than 64). A commit that is repeated writes
  the same cells again. One that was overtaken (its driver slept, or a message lay in some buffer) writes cells that
  are older than those of the commits after it, and are not seen. `epoch` is the region server's clock when the
  namespace was made, so that somebody who deletes its rows and starts over is not haunted by the old ones, in either
  direction.
- **A deleted key** keeps its row, with a cell that says so. HBase's own delete marker would do until a major
  compaction drops it: then an overtaken commit's cell would be seen again. So deletes cost space, until the
  administrator takes them out: docs/providers/hbase.md.

A commit is decided by the check-and-put that promotes the attempt; it is applied group by group, each counted, and
ends by the check-and-put that makes its txid the committed one. It is cut off anywhere, and gone on with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from anchorbolt.config.providers import HBaseSettings
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import SizeLimits, StateProvider
from anchorbolt.state_backends.hbase.client import HBaseAddress, HBaseClient
from anchorbolt.state_backends.hbase.layout import METADATA, NAMESPACES_ROW, NamespaceRows
from anchorbolt.state_backends.hbase.storage import HBaseStateStorage
from anchorbolt.state_backends.hbase.table import HBaseTable

_FRAMED_BYTES = 2 * 1024 * 1024
_CELL_BYTES = 10 * 1024 * 1024
_ROOM = 66_000  # of a message or a cell, for the row's name, which is sent once or twice, and its frame


@dataclass(frozen=True)
class HBaseStateProvider(HBaseSettings, StateProvider):
    """Keeps all namespaces in one column family of a table of HBase 2, reached by its Thrift 1 server.

    Attributes:
        table: Name of the table, `namespace:table` where it lies in one.
        column_family: Name of the column family. It must not have a TTL.
        host: Name or address of the Thrift server.
        port: Its TCP port.
        timeout_ms: Time in milliseconds for one exchange with the server, connecting and repetitions included.
        transport: "buffered", or "framed" for a server started with `-f`, `-nonblocking`, `-hsha` or
            `-threadedselector`.
        protocol: "binary", or "compact" for a server started with `-c`.
        create_table: Whether to create the table where it is missing, at the first use, which takes 30 s at most.
        tls: How to encrypt; None means not at all. A mapping with the keys of `TlsSettings` is taken as such.
        largest_value: Bytes of the largest value to take; None means what the server takes by its defaults: some
            10 MB on a buffered and 2 MB on a framed one.
    """

    def open(self, namespace: str) -> HBaseStateStorage:
        """See `StateProvider.open`. Connects at the first call of a method.

        Raises:
            ConfigError: A TLS file cannot be read, or `namespace` is not a possible name.
        """
        rules.check_namespace(namespace)
        return HBaseStateStorage(namespace, HBaseClient.acquire(self._address), self._limits(namespace))

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        """See `StateProvider.namespaces`. Reads one row, whatever the size of the namespaces."""
        if not re.fullmatch(r"[A-Za-z0-9_.:$-]*", prefix):
            return
        table = HBaseTable(HBaseClient.acquire(self._address), None)
        try:
            names = table.columns(NAMESPACES_ROW, prefix.encode())
            # It is listed before its metadata is made, which may have failed, or been deleted by hand.
            metadata_rows = {name: NamespaceRows(name.decode("ascii", "replace")).metadata for name in names}
            found = {
                row for cells, _ in table.read_many(METADATA, list(metadata_rows.values())) for row in cells
            }
        finally:
            table.close()
        for name, row in metadata_rows.items():
            if row in found and rules.is_namespace(name.decode("ascii", "replace")):
                yield name.decode()

    def describe(self) -> str:
        """See `StateProvider.describe`."""
        return f"{self._address}, table {self.table}, column family {self.column_family}"

    @property
    def _address(self) -> HBaseAddress:
        return HBaseAddress(
            self.host,
            self.port,
            self.transport,
            self.protocol,
            self.timeout_ms,
            self.tls,
            self.table,
            self.column_family,
            self.create_table,
        )

    def _limits(self, namespace: str) -> SizeLimits:
        key = NamespaceRows(namespace).longest_key
        cells = "hbase.client.keyvalue.maxsize and hbase.server.keyvalue.maxsize"
        if self.transport == "framed":
            default, names = _FRAMED_BYTES, f"hbase.regionserver.thrift.framed.max_frame_size_in_mb, {cells}"
        else:
            default, names = _CELL_BYTES, cells
        advice = f"Raise {names} on the servers, and then largestValue in the provider's configuration"
        return SizeLimits(key, self.largest_value or default - _ROOM, advice)
