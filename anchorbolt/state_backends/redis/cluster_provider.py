"""State in a Redis Cluster. `storage` says which key holds what."""

from collections.abc import Iterator
from dataclasses import dataclass

from anchorbolt.config.providers import RedisClusterSettings
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.addresses import RedisCluster
from anchorbolt.state_backends.redis.storage import RedisStateStorage, namespaces_of, open_storage


@dataclass(frozen=True)
class RedisClusterStateProvider(RedisClusterSettings, StateProvider):
    """Spreads the namespaces over the servers of a Redis Cluster, version 5 or newer; each is on one of them.

    Replicas get what was written a moment later. If a master is lost in that moment, its replica takes over without it:
    the run then halts with `StateRegressed`. As on a single server, no master may evict.

    Attributes:
        nodes: Some of the servers, each as `host:port`; the others are found through them.
        max_redirections: How many times one command follows a redirection to another server.
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
        return open_storage(self.address, namespace, f"{{{namespace}}}", self.largest_value)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        """Yield the namespaces whose names start with `prefix`. Goes through all keys of all masters.

        A namespace may be left out while its keys are moved to another server.
        """
        return namespaces_of(self.address, prefix, "{")

    def describe(self) -> str:
        return str(self.address)

    @property
    def address(self) -> RedisCluster:
        """The address and login of the cluster."""
        return RedisCluster(
            nodes=self.addresses,
            max_redirections=self.max_redirections,
            username=self.username,
            password=self.password,
            timeout_ms=self.timeout_ms,
            tls=self.tls,
        )
