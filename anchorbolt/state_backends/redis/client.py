"""The way to Redis: connections, and retries within a bounded time. It knows no step of a transaction.

Connections are shared by all namespaces of a provider in a process; redis-py opens them when they are needed, gives
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
# Those that may be over soon. A cluster that is moving keys or electing a master answers by the last three.
_MAY_PASS = (
    redis.ConnectionError,
    redis.TimeoutError,
    OSError,
    TryAgainError,
    ClusterError,
    RedisClusterException,
)
# What a cluster's client can deal with where it runs a command by itself: it follows redirections, and looks for a
# master that took over.
_ELSEWHERE = (AskError, MovedError, *_MAY_PASS)


def _without_numbers(command: Sequence[Any]) -> list[Any]:
    # A signal while hiredis (3.0 to 3.5 at least) formats a number ends the process with a segmentation fault.
    return [b"%d" % part if isinstance(part, int) else part for part in command]


class RedisClient(SharedClient[RedisAddress]):
    """Runs commands and scripts at one address; thread-safe."""

    def __init__(self, address: RedisAddress, advice: Advice = _OF_A_TOPOLOGY) -> None:
        """Connect to nothing yet; errors say what `advice` says. See also `acquire`.

        Raises:
            ConfigError: A file that TLS needs cannot be read.
        """
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

        `directly` does the same by a transaction, with a client of the one server that should hold the keys; the script
        is run where a cluster has them elsewhere, or the user may run no transaction.
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
                # A server that has been started, or has become a master, since. It keeps the text from now on.
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
            # A user without the right to MULTI or EXEC, for one: not asked again. The script says what else is wrong.
            self._allows_transactions = False
            if server is not None:
                server.connection_pool.disconnect(inuse_connections=False)  # one may still be within MULTI
        return None

    def command(self, namespace: str | None, *command: Any) -> Any:
        """Run one command that may be repeated."""
        return self._retried(namespace, lambda client: client.execute_command(*_without_numbers(command)))

    def refuse_eviction(self) -> None:
        """Raise `ConfigError` if a server may drop any key when it is full; one that may not be asked passes."""
        for master in self._retried(None, self.address.masters):
            with self._translating(None), suppress(NoPermissionError):
                refuse_eviction(self.address, master.execute_command("INFO", "memory"))

    def keys(self, pattern: str) -> Iterator[bytes]:
        """Yield the keys that match, of all servers that hold some; one may come twice."""
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
        """Give a function that runs commands on one connection to the server that holds `key`. It retries nothing."""

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
        """Give a connection that nobody else uses, before or after, to the server that holds `key`."""
        # It needs hiredis, which Spark's executors need not have: it is no pure Python, and is not shipped.
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
            exclusive.close()  # before it goes back to the pool: its watches and replies are nobody else's
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
            raise  # keys or values that are no bytes: a fault of ours
        except REDIS_ERRORS as error:
            raise translated(self.address, namespace, error, self._advice) from error

    def _close(self) -> None:
        with self._lock:
            if self._redis is not None:
                self._redis.close()
                self._redis = None
