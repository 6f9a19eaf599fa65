"""State in a Redis Cluster. What lies under which key is said in `storage`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import TlsSettings
from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.addresses import RedisCluster
from anchorbolt.state_backends.redis.storage import RedisStateStorage, namespaces_of, open_storage
from anchorbolt.state_backends.shared_client import tls_from


@dataclass(frozen=True)
class RedisClusterStateProvider(StateProvider):
    """Spreads the namespaces over the servers of a Redis Cluster, version 5 or newer; each lies on one of them.

    Replicas get what was written a moment later. If a master is lost in that moment, its replica takes over without it:
    the run then halts with `StateRegressed`. As on a single server, no master may evict.

    Attributes:
        nodes: Some of the servers, each as `host:port`; the others are found through them.
        max_redirections: How many times one command follows a redirection to another server.
        username: ACL user; None means the default one.
        password: Its password.
        timeout_ms: Time in milliseconds for connecting to one address, and for each answer, to its last byte; large
            ones have a second more for each MiB. A call is repeated for as long, so that all its answers together have
            twice that.
        tls: How to encrypt; None means not at all. A mapping with the keys of `TlsSettings` is taken as such.
        largest_value: Bytes of the largest value to take; None means what Redis takes by default, some 490 MB.
    """

    nodes: Sequence[str] = ("localhost:6379",)
    max_redirections: int = field(default=5, kw_only=True)
    username: str | None = field(default=None, kw_only=True)
    password: Secret | None = field(default=None, kw_only=True)
    timeout_ms: int = field(default=2000, kw_only=True)
    tls: TlsSettings | None = field(default=None, kw_only=True)
    largest_value: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tls", tls_from(self.tls))
        object.__setattr__(self, "nodes", tuple(self.nodes))
        if not self.nodes:
            raise ConfigError("a Redis Cluster needs at least one node, as host:port", key="nodes")
        for node in self.nodes:
            _host_and_port(node)
        for name, value, least in (
            ("maxRedirections", self.max_redirections, 0),
            ("timeout", self.timeout_ms, 1),
            ("largestValue", 1 if self.largest_value is None else self.largest_value, 1),
        ):
            if value < least:
                raise ConfigError(f"{value} cannot be the {name} of a Redis Cluster", key=name)

    def open(self, namespace: str) -> RedisStateStorage:
        """See `StateProvider.open`. Connects at the first call of a method.

        Raises:
            ConfigError: A TLS file cannot be read, or `namespace` is not a possible name.
        """
        return open_storage(self.address, namespace, f"{{{namespace}}}", self.largest_value)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        """See `StateProvider.namespaces`. Goes through all keys of all masters.

        A namespace may be left out while its keys are moved to another server.
        """
        return namespaces_of(self.address, prefix, "{")

    def describe(self) -> str:
        """See `StateProvider.describe`."""
        return str(self.address)

    @property
    def address(self) -> RedisCluster:
        """Where it is, and how to log in."""
        return RedisCluster(
            nodes=tuple(_host_and_port(node) for node in self.nodes),
            max_redirections=self.max_redirections,
            username=self.username,
            password=self.password,
            timeout_ms=self.timeout_ms,
            tls=self.tls,
        )


def _host_and_port(node: str) -> tuple[str, int]:
    host, colon, port = node.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")  # an IPv6 address
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"{node!r} is no node of a Redis Cluster: write host:port", key="nodes")
    return host, int(port)
