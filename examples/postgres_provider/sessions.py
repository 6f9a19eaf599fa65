"""Connections to one PostgreSQL server, one for each thread, with time limits and translated errors.

The steps of a state transaction are in `storage`. Once a database transaction has begun, nothing here is repeated: the
outcome of an interrupted step is unknown, and Anchorbolt repeats the step.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, sql

from anchorbolt.config import Secret
from anchorbolt.errors import (
    AnchorboltError,
    ConfigError,
    StateCorrupted,
    StateError,
    StateUnavailable,
    UnsupportedValue,
)
from anchorbolt.state_backends.contract import START_OVER
from postgres_provider.tables import CREATE_TABLES

if TYPE_CHECKING:
    from typing_extensions import LiteralString

__all__ = ["Server", "Session", "Sessions", "sessions_of"]

_KEY = "topology.state.provider.config"
_MAKING_TABLES = 0x616E63686F72  # advisory lock for creating the tables: any number that no other program uses
_SETTINGS = """
SELECT set_config('search_path', %(schema)s, false),
       set_config('statement_timeout', %(timeout)s, false),
       set_config('lock_timeout', %(timeout)s, false),
       -- Otherwise a client that hangs within a step would keep the namespace locked for all others.
       set_config('idle_in_transaction_session_timeout', %(timeout)s, false),
       -- A commit that has returned must survive a crash, whatever the server's default is.
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
           WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
       -- Every statement here must use an index, also on a table that has no statistics yet.
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false)
"""
# Reads the catalogue's tables, because functions such as to_regclass answer from a cache within a transaction.
_TABLES = """
SELECT has_schema_privilege(pg_namespace.oid, 'USAGE')
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %(schema)s AND relname = 'namespaces'
"""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Address, login and time limit of a server. Its `repr` shows no password."""

    host: str
    port: int
    database: str
    user: str
    password: Secret | None
    schema: str
    sslmode: str | None
    sslrootcert: str | None
    timeout_ms: int

    def __str__(self) -> str:
        return f"PostgreSQL at {self.host}:{self.port}, database {self.database}"


class Session:
    """One connection. Used by one thread, in one transaction at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        seconds = ceil(server.timeout_ms / 1000)
        self._connection = psycopg.connect(
            host=server.host,
            port=server.port,
            dbname=server.database,
            user=server.user,
            password=server.password.reveal() if server.password else None,
            sslmode=server.sslmode,
            sslrootcert=server.sslrootcert,
            autocommit=True,  # `_transaction` sends BEGIN and COMMIT itself
            application_name="anchorbolt",
            connect_timeout=max(2, seconds),  # libpq's minimum
            keepalives=1,
            keepalives_idle=seconds,
            keepalives_interval=seconds,
            keepalives_count=1,
            tcp_user_timeout=server.timeout_ms,
        )
        # A second descriptor of the same socket, for `_cut`: the connection may close its own descriptor meanwhile, and
        # the process may use that number again.
        self._link = socket.socket(fileno=os.dup(self._connection.fileno()))
        self._timer: threading.Timer | None = None
        self._has_tables = False
        try:
            self.start_timer()
            self.run(_SETTINGS, schema=server.schema, timeout=str(server.timeout_ms))
        except BaseException:
            self.close()
            raise

    def run(self, statement: LiteralString, **parameters: Any) -> psycopg.Cursor[Any]:
        """Run one statement. `%(name)b` is a parameter in binary form; use it for `bytes`."""
        return self._connection.execute(statement, parameters or None, binary=True)

    def start_timer(self) -> None:
        """Cut the connection after twice the time limit, unless this method or `stop_timer` is called before.

        The server's own limits usually apply first. They do not apply if the server itself hangs.
        """
        self.stop_timer()
        self._timer = threading.Timer(2 * self._server.timeout_ms / 1000, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def stop_timer(self) -> None:
        """Do not cut the connection."""
        if self._timer is not None:
            self._timer.cancel()

    def has_tables(self) -> bool:
        """Return whether the tables exist. After the first yes, the server is not asked again.

        Raises:
            ConfigError: The tables exist, but the user may not use their schema.
        """
        if not self._has_tables:
            for (permitted,) in self.run(_TABLES, schema=self._server.schema):
                if not permitted:
                    raise _not_permitted(self._server, f"permission denied for schema {self._server.schema}")
                self._has_tables = True
        return self._has_tables

    def make_tables(self) -> None:
        """Create the tables in the current transaction, unless another process has created them."""
        self.run("SELECT pg_advisory_xact_lock(%(key)s)", key=_MAKING_TABLES)
        if self.run(_TABLES, schema=self._server.schema).fetchall():
            return
        schema = self._server.schema
        # `IF NOT EXISTS` would need the right to create a schema even if the schema exists.
        if not self.run("SELECT FROM pg_namespace WHERE nspname = %(schema)s", schema=schema).fetchall():
            self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        self._connection.execute(CREATE_TABLES)

    def close(self) -> None:
        """Close the connection."""
        self.stop_timer()
        self._connection.close()
        self._link.close()

    def _cut(self) -> None:
        # `close` would not wake the thread that waits for an answer; `shutdown` does.
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)


class Sessions:
    """This process's connections to one server, one a thread. `sessions_of` returns them; `release` ends their use."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._by_thread: dict[int, Session] = {}
        self.users = 0

    @contextmanager
    def reading(self, namespace: str | None) -> Iterator[Session | None]:
        """Open a read-only transaction that sees one snapshot. Yields None if the tables do not exist yet."""
        with self._transaction(namespace, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as session:
            yield session if session.has_tables() else None

    @contextmanager
    def writing(self, namespace: str) -> Iterator[Session]:
        """Open a transaction. The end of the block commits it; an exception rolls it back."""
        with self._transaction(namespace, "BEGIN ISOLATION LEVEL READ COMMITTED") as session:
            if not session.has_tables():
                session.make_tables()
            yield session

    @contextmanager
    def _transaction(self, namespace: str | None, begin: LiteralString) -> Iterator[Session]:
        try:
            session = self._begun(begin)
            yield session
            session.run("COMMIT")
            session.stop_timer()
        except AnchorboltError:  # the step was refused; the connection is fine
            self._roll_back()
            raise
        except BaseException as error:
            # The state of the connection is unknown. When it closes, the server rolls the transaction back.
            self._drop()
            if isinstance(error, psycopg.Error):
                raise _translated(error, self._server, namespace) from error
            raise

    def _begun(self, begin: LiteralString) -> Session:
        thread = threading.get_ident()
        session = self._by_thread.get(thread)
        if session is not None:
            try:
                session.start_timer()
                session.run(begin)
                return session
            except psycopg.OperationalError:
                self._drop()  # the connection broke since its last use; this step has not begun
        session = self._by_thread[thread] = Session(self._server)
        session.start_timer()
        session.run(begin)
        return session

    def _roll_back(self) -> None:
        session = self._by_thread[threading.get_ident()]
        try:
            session.run("ROLLBACK")
            session.stop_timer()
        except psycopg.Error:  # then the server rolls back by itself
            self._drop()

    def _drop(self) -> None:
        session = self._by_thread.pop(threading.get_ident(), None)
        if session is not None:
            session.close()

    def release(self) -> None:
        """Close all connections, unless another storage still uses them."""
        with _lock:
            self.users -= 1
            if self.users > 0:
                return
            _known.pop((os.getpid(), self._server), None)
        for thread in list(self._by_thread):
            self._by_thread.pop(thread).close()


# By process: after a fork, the child must neither use nor close the parent's connections.
_known: dict[tuple[int, Server], Sessions] = {}
_lock = threading.Lock()


def sessions_of(server: Server) -> Sessions:
    """Return this process's connections to `server`. It connects on first use."""
    with _lock:
        sessions = _known.setdefault((os.getpid(), server), Sessions(server))
        sessions.users += 1
        return sessions


def _after_fork() -> None:
    # A thread that held the lock in the parent does not exist in the child.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _translated(error: psycopg.Error, server: Server, namespace: str | None) -> AnchorboltError:
    text = str(error).strip()

    def said(*signs: str) -> bool:
        return any(sign in text for sign in signs)

    def unavailable(reason: str) -> StateUnavailable:
        return StateUnavailable(f"{server}: {reason}", namespace=namespace)

    # A refused login has no error code, only the server's text.
    if said("authentication failed", "no password supplied", "no pg_hba.conf entry", "is not permitted to log in"):
        return ConfigError(f"{server} refused the login ({text}): check user and password", key=_KEY)
    if said(f'database "{server.database}" does not exist'):
        return ConfigError(f"{server} does not exist ({text}): create it, or name another one", key=_KEY)
    match error:
        case errors.InsufficientPrivilege():
            return _not_permitted(server, text)
        case errors.QueryCanceled() | errors.LockNotAvailable() | errors.IdleInTransactionSessionTimeout():
            return unavailable(
                f"a statement took more than {server.timeout_ms} ms ({text}): check the server's load and who holds "
                "the lock (pg_stat_activity), or raise timeout_ms"
            )
        case errors.ReadOnlySqlTransaction():
            return unavailable(f"it is read-only ({text}): name the primary server instead of a standby")
        case errors.DiskFull():
            return unavailable(f"its disk is full ({text}): free some space")
        case errors.ProgramLimitExceeded():
            return UnsupportedValue(f"{server}: {text}: a value may have up to 1 GB")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StateCorrupted(f"{server}: {text}. {START_OVER}", namespace=namespace)
        case (
            errors.UndefinedTable() | errors.UndefinedColumn() | errors.DatatypeMismatch() | errors.UndefinedFunction()
        ):
            return StateCorrupted(
                f"{server}: the tables in schema {server.schema} do not belong to this provider ({text}). If another "
                f"program owns them, name another schema. {START_OVER}",
                namespace=namespace,
            )
        case psycopg.OperationalError():
            return unavailable(
                f"it cannot be reached, or it closed the connection ({text}): check that it runs, and host and port"
            )
    return StateError(f"{server} refused ({text}): PostgreSQL 12 or newer is needed", namespace=namespace)


def _not_permitted(server: Server, text: str) -> ConfigError:
    return ConfigError(
        f"{server}: user {server.user!r} lacks a permission ({text}): grant USAGE on the schema {server.schema} and "
        "SELECT, INSERT, UPDATE, DELETE on its tables; for the first start also CREATE on the schema, or on the "
        "database if the schema does not exist yet",
        key=_KEY,
    )
