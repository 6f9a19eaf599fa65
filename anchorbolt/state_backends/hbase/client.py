"""Connections to one HBase Thrift server, with time limits and retries.

A connection serves one thread at a time. After a time-out or a transport error it is closed: otherwise the next call
would read the reply to the previous one. A failed call may still have had an effect, so every call must be repeatable.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from anchorbolt.config.providers import PROVIDER_CONFIG, HBaseSettings, TlsSettings
from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.hbase import errors
from anchorbolt.state_backends.shared_client import SharedClient, check_tls_files

from Hbase_thrift import ColumnDescriptor, Hbase  # isort: skip (made by the import above)
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.thrift import TClient
from thriftpy2.transport import TBufferedTransport, TFramedTransport, TSocket

_T = TypeVar("_T")
_IDLE_SECONDS = 30.0  # the server closes its side after 60 s
_LONGEST_PAUSE = 0.25
_CREATE_SECONDS = 30.0


class HBaseClient(SharedClient[HBaseSettings]):
    """Makes calls on one Thrift server; thread-safe. Its address is the provider, which is hashable."""

    def __init__(self, address: HBaseSettings) -> None:
        super().__init__(address)
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._tls = _tls_context(address.tls) if address.tls else None

    def run(self, namespace: str | None, work: Callable[[Any], _T]) -> _T:
        """Call `work` with a client of the Thrift service, again after a passing failure, and return its result.

        All calls together take at most the timeout. If the table is missing and may be created, they take at most 30 s.
        Raises the errors of `errors.translated`.
        """
        address = self.address
        deadline = time.monotonic() + address.timeout_ms / 1000
        may_create = address.create_table
        pause = 0.01
        while True:
            try:
                return self._try(work, deadline)
            except errors.FAILURES as error:
                is_missing = address.create_table and errors.is_missing_table(error)
                if may_create and is_missing:
                    may_create = False
                    deadline = time.monotonic() + max(_CREATE_SECONDS, address.timeout_ms / 1000)
                    self._create_table(namespace, deadline)
                    continue
                # A table that another worker is creating stays missing for some time.
                if (errors.is_lasting(error) and not is_missing) or time.monotonic() + pause >= deadline:
                    raise errors.translated(error, self.address, namespace) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _try(self, work: Callable[[Any], _T], deadline: float) -> _T:
        connection = self._take()
        connection.socket.deadline = deadline
        try:
            if not connection.socket.is_open():
                connection.socket.open()
            result = work(connection)
        except errors.ANSWERS:
            self._give_back(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return result

    def _take(self) -> _Connection:
        """Return a connection that no other thread uses, preferably an open one."""
        oldest = time.monotonic() - _IDLE_SECONDS
        with self._lock:
            stale = [each for each in self._idle if each.used_at < oldest]
            self._idle = [each for each in self._idle if each.used_at >= oldest]
            connection = self._idle.pop() if self._idle else None
        for each in stale:
            each.close()
        return connection or _Connection(self.address, self._tls)

    def _give_back(self, connection: _Connection) -> None:
        connection.used_at = time.monotonic()
        with self._lock:
            if self._users > 0:
                self._idle.append(connection)
                return
        connection.close()

    def _create_table(self, namespace: str | None, deadline: float) -> None:
        family = ColumnDescriptor(
            name=self.address.column_family.encode() + b":",
            maxVersions=1,
            bloomFilterType="ROW",
            blockCacheEnabled=True,
            timeToLive=-1,
        )
        try:
            self._try(lambda client: client.createTable(self.address.table.encode(), [family]), deadline)
        except errors.FAILURES as error:
            if not errors.is_existing_table(error):  # another worker may have created the table
                raise errors.translated(error, self.address, namespace) from error


class _Socket(TSocket):  # type: ignore[misc]
    """thriftpy2's socket, with one `deadline` for all waits instead of a timeout for each."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(host=host, port=port)
        self.deadline = 0.0
        self._tls = tls

    def open(self) -> None:
        plain = socket.create_connection((self.host, self.port), timeout=self._left())
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.sock = plain
        if self._tls is not None:
            plain.settimeout(self._left())
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)

    def read(self, sz: int) -> Any:
        self.sock.settimeout(self._left())
        return super().read(sz)

    def write(self, buf: Any) -> None:
        self.sock.settimeout(self._left())
        super().write(buf)

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is up")
        return left


class _Connection(TClient):  # type: ignore[misc]
    """A client of the Thrift service and its socket."""

    def __init__(self, address: HBaseSettings, tls: ssl.SSLContext | None) -> None:
        self.socket = _Socket(address.host, address.port, tls)
        self.used_at = 0.0
        transport = {"buffered": TBufferedTransport, "framed": TFramedTransport}[address.transport]
        protocol = {"binary": TBinaryProtocol, "compact": TCompactProtocol}[address.protocol]
        super().__init__(Hbase, protocol(transport(self.socket), decode_response=False))


def _tls_context(tls: TlsSettings) -> ssl.SSLContext:
    check_tls_files(tls)
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"the TLS files {tls.ca}, {tls.cert}, {tls.key} cannot be used ({error}): they must "
            "be PEM, and the key without a password",
            key=PROVIDER_CONFIG,
        ) from error
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
