"""State in one Redis server. `storage` says which key holds what."""

from collections.abc import Iterator
from dataclasses import dataclass

from anchorbolt.config.providers import RedisSettings
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.addresses import RedisServer
from anchorbolt.state_backends.redis.storage import RedisStateStorage, namespaces_of, open_storage


@dataclass(frozen=True)
class RedisStateProvider(RedisSettings, StateProvider):
    """Keeps all namespaces in one database of a Redis server, version 5 or newer.

    What survives the loss of that server is what its own settings save: with `appendonly yes`, the last second may be
    lost unless `appendfsync` is `always`. It must not evict: `maxmemory-policy` is `noeviction` or a `volatile` one.

    Attributes:
        host: Name or address of the server.
        port: Its TCP port.
        database: Number of the database.
        username: ACL user; None means the default one.
        password: Its password.
        timeout_ms: Time in milliseconds for connecting, and for each read and write of a socket. A call that fails is
            repeated for as long.
        tls: How to encrypt; None means not at all. A mapping with the keys of `TlsSettings` is taken as such.
        largest_value: Bytes of the largest value to take; None means what Redis takes by default, some 490 MB.
    """

    def open(self, namespace: str) -> RedisStateStorage:
        """Open a namespace. Connects at the first call of a method.

        Raises:
            ConfigError: A TLS file cannot be read, or `namespace` is not a possible name.
        """
        return open_storage(self.address, namespace, namespace, self.largest_value)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        """Yield the namespaces whose names start with `prefix`. Goes through all keys of the database."""
        return namespaces_of(self.address, prefix, "")

    def describe(self) -> str:
        return f"{self.address}, database {self.database}"

    @property
    def address(self) -> RedisServer:
        """The address and login of the server."""
        return RedisServer(
            host=self.host,
            port=self.port,
            database=self.database,
            username=self.username,
            password=self.password,
            timeout_ms=self.timeout_ms,
            tls=self.tls,
        )
