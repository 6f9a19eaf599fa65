"""State in one Redis server, or in a Redis Cluster. `storage` lists the keys."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from anchorbolt.config.providers import RedisClusterSettings, RedisSettings
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import SizeLimits, StateProvider
from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisCluster, RedisServer
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.storage import RedisStateStorage

# Redis's default limit. A large update is a separate slice: one string with its key and value.
_LARGEST_STRING = 512 << 20
_LARGEST_KEY = 16 << 20
_PACKING = 64


class RedisProvider(StateProvider):
    """The common methods of the providers on Redis."""

    largest_value: int | None

    @property
    @abstractmethod
    def address(self) -> RedisAddress:
        """The address and login."""

    def open(self, namespace: str) -> RedisStateStorage:
        """Open a namespace. Connects at the first call of a method.

        Raises:
            ConfigError: A TLS file cannot be read, or `namespace` is not a possible name.
        """
        rules.check_namespace(namespace)
        limits = SizeLimits(
            _LARGEST_KEY,
            self.largest_value or _LARGEST_STRING - _LARGEST_KEY - _PACKING,
            "Raise proto-max-bulk-len in redis.conf, and then largestValue in the provider's configuration",
        )
        return RedisStateStorage(namespace, RedisClient.acquire(self.address), limits)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        """Yield the namespaces whose names start with `prefix`. Goes through all keys of the database or cluster.

        A cluster may leave out a namespace while it moves its keys to another server.
        """
        # A glob that matches all namespaces with the prefix, and perhaps others, which are skipped below.
        pattern = "".join(letter if letter.isalnum() or letter in "_.:-$" else "?" for letter in prefix)
        root_of, seen = self.address.root, set()
        client = RedisClient.acquire(self.address)
        try:
            # `$txid` shows a namespace whose `$fence` was removed. Storm also writes it, under names without a colon.
            for key in client.keys(root_of(f"{pattern}*") + "$[ft][ex][ni][cd]*"):
                root, _, kind = key.decode("ascii", "replace").rpartition("$")
                namespace = root.strip("{}")
                is_ours = kind == "fence" or (kind == "txid" and ":" in namespace)
                is_ours = is_ours and rules.is_namespace(namespace) and root == root_of(namespace)
                if is_ours and namespace not in seen and namespace.startswith(prefix):
                    seen.add(namespace)
                    yield namespace
        finally:
            client.release()


@dataclass(frozen=True)
class RedisStateProvider(RedisSettings, RedisProvider):
    """Keeps all namespaces in one database of a Redis server, version 5 or newer.

    The server's own settings decide which data survive its loss: with `appendonly yes`, the last second may be lost
    unless `appendfsync` is `always`. It must not evict keys: `maxmemory-policy` must be `noeviction` or a `volatile`
    policy.

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

    def describe(self) -> str:
        return f"{self.address}, database {self.database}"

    @property
    def address(self) -> RedisServer:
        return RedisServer.of(self)


@dataclass(frozen=True)
class RedisClusterStateProvider(RedisClusterSettings, RedisProvider):
    """Spreads the namespaces over the servers of a Redis Cluster, version 5 or newer; each namespace is on one server.

    Replicas get each write a moment later. If a master is lost in that moment, its replica takes over without the
    write: the run then halts with `StateRegressed`. As on a single server, no master may evict keys.

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

    def describe(self) -> str:
        return str(self.address)

    @property
    def address(self) -> RedisCluster:
        return RedisCluster.of(self)
