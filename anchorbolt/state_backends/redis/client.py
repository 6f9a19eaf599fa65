"""Connections to Redis, with retries within a bounded time.

All namespaces of a provider in a process share their connections. redis-py opens a connection when it is needed, gives
each thread its own, and opens new ones after a fork.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import redis
from redis import exceptions
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisCluster
from anchorbolt.state_backends.redis.errors import REDIS_ERRORS, Advice, is_final, translated
from anchorbolt.state_backends.shared_client import SharedClient, check_tls_files

_T = TypeVar("_T")
_OF_A_TOPOLOGY = Advice()
# Errors that may pass soon; the first three come from a cluster that is moving keys or electing a master.
_OF_A_CLUSTER = (exceptions.TryAgainError, exceptions.ClusterError, exceptions.RedisClusterException)
_MAY_PASS = (*_OF_A_CLUSTER, redis.ConnectionError, redis.TimeoutError, OSError)
# Errors that a cluster's client handles when it runs a single command: it follows redirections, and finds a new master.
_ELSEWHERE = (exceptions.AskError, exceptions.MovedError, *_MAY_PASS)


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

        `directly` makes the same read in a transaction, with a client of the server that should hold the keys. If a
        cluster has moved the keys, or the user may not run transactions, the script is run instead.
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
            except exceptions.NoScriptError:
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
        except (exceptions.AuthenticationError, exceptions.DataError):
            raise
        except exceptions.ResponseError:
            # The user may lack the permission for MULTI or EXEC: do not try it again. The script shows other problems.
            self._allows_transactions = False
            if server is not None:
                server.connection_pool.disconnect(inuse_connections=False)  # a connection may be inside MULTI
        return None

    def command(self, namespace: str | None, *command: Any) -> Any:
        """Run one command, which must be repeatable."""
        return self._retried(namespace, lambda client: client.execute_command(*_without_numbers(command)))

    def attempt(self, command: Sequence[Any], refused: Callable[[str], Exception | None], **options: Any) -> Any:
        """Run one command, without retries: for a command with a different result when repeated.

        Args:
            command: Its name and its arguments.
            refused: Gets the text of a refusal; returns the error to raise, or None to translate the refusal as usual.
            options: Options by which redis-py reads the reply.
        """
        with self.translating(None):
            try:
                return self._connected().execute_command(*_without_numbers(command), **options)
            except exceptions.ResponseError as error:
                refusal = refused(str(error))
                if refusal is None:
                    raise
                raise refusal from error

    def at_once(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Run repeatable commands, whose first argument is their key, in one round trip to each server.

        Returns their replies. The reply to a command that failed is None: run that command alone to get its error, or
        its reply if another server has the key now.
        """
        replies: list[Any] = [None] * len(commands)
        groups: dict[int, tuple[Any, list[int]]] = {}
        with suppress(*REDIS_ERRORS):
            client = self._connected()
            for index, (_, key, *_) in enumerate(commands):
                server = self.address.holder(client, key)
                groups.setdefault(id(server), (server, []))[1].append(index)
        for server, indexes in groups.values():
            with suppress(*REDIS_ERRORS), server.pipeline(transaction=False) as pipeline:
                for index in indexes:
                    pipeline.execute_command(*_without_numbers(commands[index]))
                for index, reply in zip(indexes, pipeline.execute(raise_on_error=False), strict=True):
                    replies[index] = None if isinstance(reply, Exception) else reply
        return replies

    def once(self, server: Any, namespace: str | None, *command: Any) -> Any:
        """Run one command, without retries, with a client of one server."""
        with self.translating(namespace):
            return server.execute_command(*_without_numbers(command))

    def refuse_eviction(self, namespace: str | None = None, key: str | None = None) -> None:
        """Raise `ConfigError` if the server of `key`, or without a key any server, may evict keys."""

        def servers(client: Any) -> Sequence[Any]:
            return self.address.masters(client) if key is None else [self._holder(client, key)]

        for server in self._retried(namespace, servers):
            try:
                memory = self.once(server, namespace, "INFO", "memory")
            except ConfigError:  # the user may not run INFO; a wrong password shows at the next call
                continue
            policy = str(memory.get("maxmemory_policy", ""))
            if memory.get("maxmemory") and policy.startswith("allkeys"):
                raise ConfigError(
                    f"{self.address} drops keys when its memory is full (maxmemory-policy {policy}), so state would be "
                    "lost. Set it to noeviction: redis-cli CONFIG SET maxmemory-policy noeviction, and the same in "
                    "redis.conf.",
                    key=PROVIDER_CONFIG,
                )

    def keys(self, pattern: str) -> Iterator[bytes]:
        """Yield the keys of all servers that match a glob; a key may come twice."""
        for master in self._retried(None, self.address.masters):
            cursor = None
            while cursor != 0:
                cursor, keys = self.once(master, None, "SCAN", cursor or 0, "MATCH", pattern, "COUNT", 1000)
                yield from keys

    @contextmanager
    def single(self, namespace: str, key: str | bytes) -> Iterator[Any]:
        """Yield a redis-py client with one connection to the server of `key`."""
        server = self._retried(namespace, lambda client: self._holder(client, key).client())
        try:
            yield server
        finally:
            server.close()

    def _holder(self, client: Any, key: str | bytes) -> Any:
        client.execute_command("HLEN", key)  # follows the redirections of a cluster, and learns from them
        return self.address.holder(client, key)

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
        with self.translating(namespace):
            retry = Retry(ExponentialBackoff(cap=0.25, base=0.01), -1, _MAY_PASS)
            return retry.call_with_retry(lambda: run(self._connected()), failed)

    @contextmanager
    def translating(self, namespace: str | None) -> Iterator[None]:
        """Translate redis-py's errors within the block."""
        try:
            yield
        except exceptions.DataError:
            raise  # keys or values that are not bytes: a bug in Anchorbolt
        except REDIS_ERRORS as error:
            raise translated(self.address, namespace, error, self._advice) from error

    def _close(self) -> None:
        with self._lock:
            if self._redis is not None:
                self._redis.close()
                self._redis = None
