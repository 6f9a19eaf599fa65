"""Addresses and logins: one Redis server, or the nodes of a cluster. Makes redis-py's clients, without retries.

`client` retries within a bounded time. redis-py nests its own retries of connections and commands, so their times would
multiply.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.cluster import PRIMARY, ClusterNode
from redis.retry import Retry

from anchorbolt.config.providers import RedisClusterSettings, RedisLogin, RedisSettings

_Address = TypeVar("_Address", bound="RedisAddress")


class RedisAddress(RedisLogin, ABC):
    """The common part of a server's and a cluster's address. The `repr` shows no password."""

    @classmethod
    def of(cls: type[_Address], settings: RedisLogin) -> _Address:
        """Return the address in these settings, which may have more fields."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    def root(self, namespace: str) -> str:
        """Return the name of a namespace's data key, the prefix of all its keys."""
        return namespace

    @abstractmethod
    def connect(self) -> Any:
        """Return a client of redis-py."""

    def masters(self, client: Any) -> Sequence[Any]:
        """Return a client of every master."""
        return [client]

    def holder(self, client: Any, key: str | bytes) -> Any:
        """Return a client of the server that holds `key` now."""
        return client

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


class RedisServer(RedisSettings, RedisAddress):
    def __str__(self) -> str:
        return f"Redis at {self.host}:{self.port}"

    def connect(self) -> Any:
        return redis.Redis(
            host=self.host, port=self.port, db=self.database, retry=Retry(NoBackoff(), 0), **self._options()
        )


class RedisCluster(RedisClusterSettings, RedisAddress):
    def __str__(self) -> str:
        return "the Redis Cluster of " + ", ".join(f"{host}:{port}" for host, port in self.addresses)

    def root(self, namespace: str) -> str:
        return f"{{{namespace}}}"

    def connect(self) -> Any:
        # The client connects at once, to read the map of slots.
        node: Any = ClusterNode
        client: Any = _ClusterClient(
            startup_nodes=[node(host, port) for host, port in self.addresses],
            retry=Retry(NoBackoff(), 0),
            # A cluster that lost a master may still serve the slot of this command. If not, the cluster refuses.
            require_full_coverage=False,
            # The first redirection already says that the map of slots is out of date.
            reinitialize_steps=1,
            **self._options(),
        )
        client.RedisClusterRequestTTL = self.max_redirections + 1  # also limits retries while keys are moved
        return client

    def masters(self, client: Any) -> Sequence[Any]:
        return [client.get_redis_connection(node) for node in client.get_primaries()]

    def holder(self, client: Any, key: str | bytes) -> Any:
        return client.get_redis_connection(client.get_node_from_key(key))


class _ClusterClient(redis.RedisCluster):
    def determine_slot(self, *args: Any) -> Any:
        # redis-py would ask a server for the keys of each of these commands, by an extra call.
        if args[0] == "XREADGROUP":
            return self.keyslot(args[args.index("STREAMS") + 1])  # type: ignore[no-untyped-call]
        return super().determine_slot(*args)

    def get_node(self, host: str | None = None, port: int | None = None, node_name: str | None = None) -> Any:
        # A server may have joined after the slots were read. redis-py 8.1.0 fails on an `ASK` to such a server.
        node: Any = super().get_node(host, port, node_name)  # type: ignore[no-untyped-call]
        if node is None and node_name:
            asked_host, _, asked_port = node_name.rpartition(":")
            new: Any = ClusterNode
            node = self.nodes_manager.nodes_cache.setdefault(node_name, new(asked_host, int(asked_port), PRIMARY))
        return node
