"""Where Redis is and how to log in: one server, or the nodes of a cluster. Makes redis-py's clients, without retries.

Retries within a bounded time are `client`'s: redis-py would retry the connection within a retried command, and
the times would multiply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import PRIMARY, ClusterNode
from redis.retry import Retry

from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.state_backends.redis.timeouts import bound_answers, connect_with_bounds


@dataclass(frozen=True)
class RedisAddress(ABC):
    """What a server and a cluster have in common. The `repr` shows no password.

    Attributes:
        username: ACL user; None means the default one.
        password: Its password.
        timeout_ms: Time in milliseconds for connecting and for each answer, to its last byte, with a second more for
            each MiB.
        tls: How to encrypt; None means not at all.
    """

    username: str | None
    password: Secret | None
    timeout_ms: int
    tls: TlsSettings | None

    @abstractmethod
    def connect(self) -> Any:
        """Return a client of redis-py."""

    @abstractmethod
    def masters(self, client: Any) -> Sequence[Any]:
        """Return a client of every server that holds keys of its own."""

    @abstractmethod
    def holder(self, client: Any, key: str | bytes) -> Any:
        """Return a client of the one server that holds `key` now."""

    def _options(self) -> dict[str, Any]:
        timeout = self.timeout_ms / 1000
        options: dict[str, Any] = {
            "username": self.username,
            "password": self.password.reveal() if self.password else None,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "protocol": 2,
        }
        if self.tls is not None:
            options |= {
                "ssl": True,
                "ssl_ca_certs": self.tls.ca,
                "ssl_certfile": self.tls.cert,
                "ssl_keyfile": self.tls.key,
                "ssl_cert_reqs": "required" if self.tls.verify else "none",
                "ssl_check_hostname": self.tls.verify,
            }
        return options


@dataclass(frozen=True)
class RedisServer(RedisAddress):
    """One server.

    Attributes:
        host: Name or address of the server.
        port: Its TCP port.
        database: Number of the database.
    """

    host: str
    port: int
    database: int

    def __str__(self) -> str:
        return f"Redis at {self.host}:{self.port}"

    def connect(self) -> Any:
        """See `RedisAddress.connect`. Connects at the first command."""
        return redis.Redis(
            host=self.host,
            port=self.port,
            db=self.database,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=connect_with_bounds,  # type: ignore[arg-type]  # (it is given the connection)
            **self._options(),
        )

    def masters(self, client: Any) -> Sequence[Any]:
        """See `RedisAddress.masters`."""
        return [client]

    def holder(self, client: Any, key: str | bytes) -> Any:
        """See `RedisAddress.holder`."""
        return client


@dataclass(frozen=True)
class RedisCluster(RedisAddress):
    """The servers of a Redis Cluster; those that are not named are found through those that are.

    Attributes:
        nodes: Host and port of some of the nodes.
        max_redirections: How many times one command follows `MOVED` and `ASK`, or tries again while keys are moved.
    """

    nodes: tuple[tuple[str, int], ...]
    max_redirections: int

    def __str__(self) -> str:
        return "the Redis Cluster of " + ", ".join(f"{host}:{port}" for host, port in self.nodes)

    def connect(self) -> Any:
        """See `RedisAddress.connect`. Connects at once, to read which node holds which slots."""
        node: Any = ClusterNode
        client: Any = _ClusterClient(
            startup_nodes=[node(host, port) for host, port in self.nodes],
            retry=Retry(NoBackoff(), 0),
            # A cluster that lost a master may still have the slot that is asked for, and refuses by itself otherwise.
            require_full_coverage=False,
            # The first redirection already says that the map of slots is an old one.
            reinitialize_steps=1,
            **self._options(),
        )
        client.RedisClusterRequestTTL = self.max_redirections + 1
        return client

    def masters(self, client: Any) -> Sequence[Any]:
        """See `RedisAddress.masters`."""
        return [client.get_redis_connection(node) for node in client.get_primaries()]

    def holder(self, client: Any, key: str | bytes) -> Any:
        """See `RedisAddress.holder`."""
        return client.get_redis_connection(client.get_node_from_key(key))


class _ClusterClient(redis.RedisCluster):
    def on_connect(self, connection: Any) -> None:
        """Also bound the answers on each new connection."""
        bound_answers(connection)
        super().on_connect(connection)  # type: ignore[no-untyped-call]

    def get_node(self, host: str | None = None, port: int | None = None, node_name: str | None = None) -> Any:
        """Also return a server that joined after the last look: redis-py fails over an `ASK` to one (8.1.0)."""
        node: Any = super().get_node(host, port, node_name)  # type: ignore[no-untyped-call]
        if node is None and node_name:
            asked_host, _, asked_port = node_name.rpartition(":")
            new: Any = ClusterNode
            node = self.nodes_manager.nodes_cache.setdefault(
                node_name, new(asked_host, int(asked_port), PRIMARY)
            )
        return node
