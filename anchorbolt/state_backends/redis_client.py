"""The way to one Redis server: connections, retries within a bounded time, and the driver's errors translated.

Connections are shared by all namespaces of a provider in a process; redis-py opens them when they are needed, gives
each thread its own, and opens new ones after a fork. This file knows no step of a transaction.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterError,
    DataError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.retry import Retry

from anchorbolt.errors import AnchorboltError, ConfigError, StateCorrupted, StateError, StateUnavailable
from anchorbolt.secret import Secret
from anchorbolt.state_backends.base import START_OVER

__all__ = ["RedisClient", "RedisServer", "RedisTls"]

_T = TypeVar("_T")
_KEY = "topology.state.provider.config"
_COMMANDS = "EVALSHA, SCRIPT LOAD, SCAN, HMGET, HGET, HGETALL, HKEYS, HLEN, HSCAN, HSET, HDEL, HINCRBY, UNLINK, RENAME"


@dataclass(frozen=True)
class RedisTls:
    """How to encrypt the connection; all files are PEM.

    Attributes:
        ca_file: Whom to trust; the system's authorities where it is None.
        certificate_file: This client's certificate, where the server asks for one.
        key_file: The key of `certificate_file`.
        verify: Whether the server's certificate and name are checked.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True


@dataclass(frozen=True)
class RedisServer:
    """Where a server is and how to log in. Its `repr` shows no password."""

    host: str
    port: int
    database: int
    username: str | None
    password: Secret | None
    timeout_ms: int
    tls: RedisTls | None

    def __str__(self) -> str:
        return f"Redis at {self.host}:{self.port}"


class RedisClient:
    """Runs commands and scripts on one server; thread-safe. Got from `acquire`, given back by `release`."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._users = 0
        self._scripts: dict[str, Any] = {}
        timeout = server.timeout_ms / 1000
        tls = server.tls
        encryption: dict[str, Any] = {}
        if tls is not None:
            encryption = {
                "ssl": True,
                "ssl_ca_certs": tls.ca_file,
                "ssl_certfile": tls.certificate_file,
                "ssl_keyfile": tls.key_file,
                "ssl_cert_reqs": "required" if tls.verify else "none",
                "ssl_check_hostname": tls.verify,
            }
        self._redis: Any = redis.Redis(
            host=server.host,
            port=server.port,
            db=server.database,
            username=server.username,
            password=server.password.reveal() if server.password else None,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            # redis-py retries the connection within a retried command: the times would multiply. Ours is outside.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **encryption,
        )

    @property
    def server(self) -> RedisServer:
        """Where it connects to."""
        return self._server

    @classmethod
    def acquire(cls, server: RedisServer) -> RedisClient:
        """Return this process's client for `server`. Connects to nothing yet.

        Raises:
            ConfigError: A file that TLS needs cannot be read.
        """
        for path in (
            (server.tls.ca_file, server.tls.certificate_file, server.tls.key_file) if server.tls else ()
        ):
            if path is not None and not os.access(path, os.R_OK):
                raise ConfigError(
                    f"the TLS file {path} cannot be read: check the path and its permissions", key=_KEY
                )
        with _registry.lock:
            client = _registry.clients.get(server)
            if client is None:
                client = _registry.clients[server] = cls(server)
            client._users += 1
            return client

    def release(self) -> None:
        """Close the connections, unless another user of them is left."""
        with _registry.lock:
            self._users -= 1
            if self._users > 0:
                return
            if _registry.clients.get(self._server) is self:
                del _registry.clients[self._server]
        self._redis.close()

    def run(self, namespace: str, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script on the keys of a namespace."""
        registered = self._scripts.get(script)
        if registered is None:
            registered = self._scripts[script] = self._redis.register_script(script)
        return self._retried(namespace, lambda: registered(keys=keys, args=arguments))

    def command(self, namespace: str | None, *command: Any) -> Any:
        """Run one command that may be repeated."""
        return self._retried(namespace, lambda: self._redis.execute_command(*command))

    def commands(self, namespace: str, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Run several commands that may be repeated, in one round trip."""

        def run() -> list[Any]:
            with self._redis.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return list(pipeline.execute())

        return self._retried(namespace, run)

    def _retried(self, namespace: str | None, run: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + self._server.timeout_ms / 1000

        def failed(error: Exception) -> None:
            # Called before each repetition. A wrong password does not become right; the rest may, within the time.
            if isinstance(error, AuthenticationError | AuthorizationError) or time.monotonic() > deadline:
                raise error

        try:
            return Retry(ExponentialBackoff(cap=0.25, base=0.01), -1).call_with_retry(run, failed)
        except DataError:
            raise  # keys or values that are no bytes: a fault of ours
        except (RedisError, OSError) as error:
            raise self._translated(namespace, error) from error

    def _translated(self, namespace: str | None, error: Exception) -> AnchorboltError:
        server, text = self._server, str(error)

        def said(*signs: str) -> bool:
            return any(sign in text for sign in signs)

        def unavailable(reason: str) -> StateUnavailable:
            return StateUnavailable(f"{server} {reason}", namespace=namespace)

        if isinstance(error, AuthenticationError | AuthorizationError) or said("NOAUTH", "WRONGPASS"):
            return ConfigError(f"{server} refused the login ({text}): check username and password", key=_KEY)
        if isinstance(error, NoPermissionError) or said(
            "NOPERM", "ACL failure", "The user executing the script", "o permissions"
        ):
            user = server.username or "default"
            return ConfigError(
                f"{server} does not permit it to user {user!r} ({text}): allow its keys and {_COMMANDS}",
                key=_KEY,
            )
        if isinstance(error, MovedError | ClusterError) or said("MOVED ", "CLUSTERDOWN", "CROSSSLOT"):
            return ConfigError(
                f"{server} is a node of a Redis Cluster ({text}): set topology.state.provider to redis-cluster",
                key=_KEY,
            )
        if said("DB index is out of range", "invalid DB index"):
            return ConfigError(f"{server} has no database {server.database}: choose a lower one", key=_KEY)
        if said("WRONGTYPE", "not an integer", "Bad data", "Missing bytes"):
            return StateCorrupted(
                f"{server} holds something under a key of {namespace} that Anchorbolt did not write ({text}). "
                f"{START_OVER}; where it is somebody else's, use another database or prefix",
                namespace=namespace,
            )
        if isinstance(error, BusyLoadingError):
            return unavailable(f"is still loading its data ({text}): try again when it has finished")
        if isinstance(error, ReadOnlyError) or said("READONLY"):
            return unavailable(f"is a read-only replica ({text}): name the master instead")
        if isinstance(error, OutOfMemoryError) or said("OOM "):
            return unavailable(f"has reached its maxmemory ({text}): raise it, or make room")
        if said("MISCONF"):
            return unavailable(f"cannot save to its disk ({text}): make room there, its log says more")
        if said("BUSY "):
            return unavailable(
                f"is busy with somebody's script ({text}): wait for it, or end it by SCRIPT KILL"
            )
        if isinstance(error, redis.TimeoutError):
            return unavailable(
                f"did not answer within {server.timeout_ms} ms ({text}): check the network and its load, or raise the "
                "timeout"
            )
        if isinstance(error, InvalidResponse):
            return unavailable(
                f"does not answer as Redis does ({text}): check host, port and whether TLS is on there"
            )
        if isinstance(error, redis.ConnectionError | OSError):
            hint = (
                "check the certificates"
                if said("SSL", "certificate")
                else "check that it runs, and host and port"
            )
            return unavailable(f"cannot be reached ({text}): {hint}")
        return StateError(f"{server} refused ({text}): Redis 5 or newer is needed", namespace=namespace)


class _Registry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: dict[RedisServer, RedisClient] = {}


_registry = _Registry()


def _forget_after_fork() -> None:
    # The lock may be held by a thread that does not exist here.
    global _registry
    _registry = _Registry()


os.register_at_fork(after_in_child=_forget_after_fork)
