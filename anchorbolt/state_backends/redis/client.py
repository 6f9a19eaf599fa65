"""Connections to Redis, with retries within a bounded time.

All namespaces of a provider in a process share their connections. redis-py opens a connection when it is needed, gives
each thread its own, and opens new ones after a fork.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterError,
    DataError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisClusterException,
    ResponseError,
    TryAgainError,
)
from redis.retry import Retry

from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisCluster
from anchorbolt.state_backends.redis.errors import REDIS_ERRORS, Advice, is_final, refuse_eviction, translated
from anchorbolt.state_backends.shared_client import SharedClient, check_tls_files

if TYPE_CHECKING:
    from anchorbolt.state_backends.redis.connection import RedisConnection

_T = TypeVar("_T")
_OF_A_TOPOLOGY = Advice()
# Errors that may pass soon. A cluster that is moving keys or electing a master raises the last three.
_MAY_PASS = (redis.ConnectionError, redis.TimeoutError, OSError, TryAgainError, ClusterError, RedisClusterException)
# Errors that a cluster's client handles when it runs a single command: it follows redirections, and finds a new master.
_ELSEWHERE = (AskError, MovedError, *_MAY_PASS)


def _without_numbers(command: Sequence[Any]) -> list[Any]:
    # A signal while hiredis (3.0 to 3.5 at least) formats a number ends the process with a segmentation fault.
    return [b"%d" % part if isinstance(part, int) else part for part in command]


class RedisClient(SharedClient[RedisAddress]):
    """Runs commands and scripts at one address; thread-safe."""

    def __init__(self, address: RedisAddress, advice: Advice = _OF_A_TOPOLOGY) -> None:
        """Connects on first use. Raises `ConfigError` if a TLS file cannot be read."""
        check_tls_files(address.tls)
        super().__init__(address)
        self._advice = advice
        self._digests: dict[str, str] = {}
        self._lock = threading.Lock()
        self._redis: Any = None
        self._allows_transactions = True

    def run(
        self,
        namespace: str,
        script: str,
        keys: Sequence[str],
        arguments: Sequence[Any],
        directly: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Run a script on the keys of a namespace.

        `directly` reads the same in a transaction, with a client of the server that should have the keys. If a cluster
        has moved the keys, or the user may not run transactions, the script is run instead.
        """
        digest = self._digests.get(script)
        if digest is None:
            digest = self._digests[script] = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()

        def run(client: Any) -> Any:
            if directly is not None and self._allows_transactions:
                reply = self._directly(client, keys[0], directly)
                if reply is not None:
                    return reply
            given = _without_numbers((len(keys), *keys, *arguments))
            try:
                return client.execute_command("EVALSHA", digest, *given)
            except NoScriptError:
                # The server has restarted, or has become a master. EVAL stores the script there again.
                return client.execute_command("EVAL", script, *given)

        return self._retried(namespace, run)

    def _directly(self, client: Any, key: str, transaction: Callable[[Any], Any]) -> Any | None:
        server = None
        try:
            server = self.address.holder(client, key)
            return transaction(server)
        except _ELSEWHERE:
            if not isinstance(self.address, RedisCluster):
                raise
        except (AuthenticationError, DataError):
            raise
        except ResponseError:
            # The user may lack the permission for MULTI or EXEC: do not try it again. The script shows other problems.
            self._allows_transactions = False
            if server is not None:
                server.connection_pool.disconnect(inuse_connections=False)  # a connection may be within MULTI
        return None

    def command(self, namespace: str | None, *command: Any) -> Any:
        """Run one command, which must be repeatable."""
        return self._retried(namespace, lambda client: client.execute_command(*_without_numbers(command)))

    def refuse_eviction(self) -> None:
        """Raise `ConfigError` if a server may evict keys. A server that forbids the question passes."""
        for master in self._retried(None, self.address.masters):
            with self._translating(None), suppress(NoPermissionError):
                refuse_eviction(self.address, master.execute_command("INFO", "memory"))

    def keys(self, pattern: str) -> Iterator[bytes]:
        """Yield the keys of all servers that match a pattern; a key may come twice."""
        for master in self._retried(None, self.address.masters):
            cursor = 0
            while True:
                with self._translating(None):
                    command = _without_numbers(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
                    cursor, keys = master.execute_command(*command)
                yield from keys
                if cursor == 0:
                    break

    @contextmanager
    def connection(self, namespace: str, key: str) -> Iterator[Callable[..., Any]]:
        """Yield a function that runs commands, without retries, on one connection to the server that has `key`."""

        def connect(client: Any) -> Any:
            client.execute_command("HLEN", key)  # follows the redirections of a cluster, and learns from them
            return self.address.holder(client, key).client()

        single = self._retried(namespace, connect)

        def run(*command: Any) -> Any:
            with self._translating(namespace):
                return single.execute_command(*_without_numbers(command))

        try:
            yield run
        finally:
            single.close()

    @contextmanager
    def exclusive(self, namespace: str, key: bytes) -> Iterator[RedisConnection]:
        """Yield an exclusive connection to the server that has `key`."""
        # It needs hiredis. Spark's executors may lack it: it is not pure Python, so it is not shipped to them.
        from anchorbolt.state_backends.redis.connection import RedisConnection

        def connect(client: Any) -> Any:
            client.execute_command("TYPE", key)  # follows the redirections of a cluster, and learns from them
            return self.address.holder(client, key).client()

        single = self._retried(namespace, connect)
        with self._translating(namespace):
            single.connection.connect()
        exclusive = RedisConnection(self.address, namespace, self._advice, single.connection)
        try:
            yield exclusive
        finally:
            exclusive.close()  # before it returns to the pool, so that no watch or reply stays on it
            single.close()

    def _connected(self) -> Any:
        with self._lock:
            if self._redis is None:
                self._redis = self.address.connect()
            return self._redis

    def _retried(self, namespace: str | None, run: Callable[[Any], _T]) -> _T:
        deadline = time.monotonic() + self.address.timeout_ms / 1000

        def failed(error: Exception) -> None:  # called before each repetition
            if is_final(error) or time.monotonic() > deadline:
                raise error

        # The last repetition begins before the deadline; the socket's time-out ends it.
        with self._translating(namespace):
            retry = Retry(ExponentialBackoff(cap=0.25, base=0.01), -1, _MAY_PASS)
            return retry.call_with_retry(lambda: run(self._connected()), failed)

    @contextmanager
    def _translating(self, namespace: str | None) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise  # keys or values that are not bytes: a bug in Anchorbolt
        except REDIS_ERRORS as error:
            raise translated(self.address, namespace, error, self._advice) from error

    def _close(self) -> None:
        with self._lock:
            if self._redis is not None:
                self._redis.close()
                self._redis = None
