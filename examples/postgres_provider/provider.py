"""The provider: address, login and time limit of the database. It connects on first use."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from anchorbolt.config import Secret
from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.rules import check_namespace
from postgres_provider.sessions import Server, sessions_of
from postgres_provider.storage import PostgresStateStorage

__all__ = ["PostgresStateProvider"]

_KEY = "topology.state.provider.config"


@dataclass(frozen=True, kw_only=True)
class PostgresStateProvider(StateProvider):
    """Keeps all namespaces in four tables of one schema of a PostgreSQL database, version 12 or newer.

    The first write creates the tables if they do not exist. Every field is an inner key of
    `topology.state.provider.config`. Other settings, such as TLS beyond `sslmode`, come from libpq's environment
    variables (`PGSSLCERT` and so on) in each process.

    Attributes:
        host: Name or address of the server, or the directory of its Unix socket.
        port: TCP port of the server.
        database: Name of the database.
        user: Name of the user.
        password: The password. Without `password` and `password_env`, libpq reads `PGPASSWORD` and then the password
            file of `PGPASSFILE` (`~/.pgpass`), in each process and on each machine that opens a connection.
        password_env: An environment variable of the driver that holds the password; the workers do not need it.
        schema: Schema of the tables.
        sslmode: libpq's `sslmode`; only "verify-full" checks the server's identity. None means libpq's default.
        sslrootcert: PEM file of the authorities to trust, at the same path on every machine.
        timeout_ms: Time limit of one statement, in ms, including the wait for a lock. `StateUnavailable` is raised
            after twice this time at the latest. Connecting may take as long again, and at least 2 s, for each address
            of `host`.
    """

    host: str = "localhost"
    port: int = 5432
    database: str = "anchorbolt"
    user: str = "anchorbolt"
    password: Secret | None = None
    password_env: str | None = None
    schema: str = "anchorbolt"
    sslmode: str | None = None
    sslrootcert: str | None = None
    timeout_ms: int = 10_000
    _server: Server = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, value, fits in (
            ("port", self.port, 0 < self.port < 65536),
            ("schema", self.schema, re.fullmatch("[a-z_][a-z0-9_]{0,62}", self.schema)),
            ("timeout_ms", self.timeout_ms, self.timeout_ms > 0),
        ):
            if not fits:
                raise ConfigError(f"{value!r} cannot be the {name} of a PostgreSQL provider", key=f"{_KEY}.{name}")
        server = Server(
            host=self.host,
            port=self.port,
            database=self.database,
            user=self.user,
            # Read here, on the driver: the provider is pickled, with the password, on its way to the workers.
            password=self.password or self._password_of_environment(),
            schema=self.schema,
            sslmode=self.sslmode,
            sslrootcert=self.sslrootcert,
            timeout_ms=self.timeout_ms,
        )
        object.__setattr__(self, "_server", server)

    def open(self, namespace: str) -> PostgresStateStorage:
        """Return the storage of a namespace; it connects on the first call of a method.

        Raises:
            ConfigError: `namespace` is not a possible name.
        """
        check_namespace(namespace)
        return PostgresStateStorage(namespace, self._server)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        sessions = sessions_of(self._server)
        try:
            with sessions.reading(None) as session:
                found = (
                    session
                    and session.run(
                        "SELECT namespace FROM namespaces WHERE starts_with(namespace, %(prefix)s) ORDER BY namespace",
                        prefix=prefix,
                    ).fetchall()
                )
        finally:
            sessions.release()
        return iter([namespace for (namespace,) in found or ()])

    def describe(self) -> str:
        return f"{self._server}, schema {self.schema}"

    def _password_of_environment(self) -> Secret | None:
        if self.password_env is None:
            return None
        value = os.environ.get(self.password_env)
        if not value:
            raise ConfigError(
                f"{_KEY}.password_env names the environment variable {self.password_env}, which is not set. Set it "
                "where the driver is started.",
                key=f"{_KEY}.password_env",
            )
        return Secret(value)
