"""Translates redis-py's errors into Anchorbolt's, whose messages end with the next action."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    ClusterError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    SlotNotCoveredError,
    TryAgainError,
)

from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.errors import AnchorboltError, ConfigError, StateCorrupted, StateError, StateUnavailable
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisCluster, RedisServer

REDIS_ERRORS = (RedisError, RedisClusterException, OSError)
"""The errors that redis-py raises for problems of a server, the network or the cluster."""


@dataclass(frozen=True)
class Advice:
    """The parts of messages that differ between a topology's state and a command. The defaults are for a topology."""

    use_server: str = "set topology.state.provider to redis"
    use_cluster: str = "set topology.state.provider to redis-cluster"
    commands: str = (
        "EVALSHA, EVAL, MULTI, EXEC, SCAN, HMGET, HGET, HGETALL, HKEYS, HLEN, HSCAN, HSET, HDEL, HINCRBY, UNLINK, "
        "RENAME"
    )
    not_ours: str = f"{START_OVER}; if another program owns the key, use another database or prefix"
    too_long: str = "raise proto-max-bulk-len in redis.conf, or set largestValue in the provider's configuration lower"


_NO_CLUSTER = "cluster support disabled"
_OF_A_CLUSTER = "CLUSTER SLOTS, COMMAND, ASKING"


def is_final(error: Exception) -> bool:
    """Whether a retry cannot help, as after a wrong password."""
    first = _first(error)
    return isinstance(first, AuthenticationError | AuthorizationError) or _NO_CLUSTER in str(first)


def translated(address: RedisAddress, namespace: str | None, error: Exception, advice: Advice) -> AnchorboltError:
    """Return Anchorbolt's error for an error of redis-py."""
    error = _first(error)
    text = str(error)

    def said(*signs: str) -> bool:
        return any(sign in text for sign in signs)

    def unavailable(reason: str) -> StateUnavailable:
        return StateUnavailable(f"{address} {reason}", namespace=namespace)

    if said(_NO_CLUSTER):
        return ConfigError(
            f"{address}: the node is a server of no cluster ({text}): {advice.use_server}", key=PROVIDER_CONFIG
        )
    if isinstance(error, AuthenticationError | AuthorizationError) or said("NOAUTH", "WRONGPASS"):
        return ConfigError(f"{address} refused the login ({text}): check username and password", key=PROVIDER_CONFIG)
    if isinstance(error, NoPermissionError) or said(
        "NOPERM", "ACL failure", "The user executing the script", "o permissions"
    ):
        more = f", {_OF_A_CLUSTER}" if isinstance(address, RedisCluster) else ""
        return ConfigError(
            f"{address} does not permit it to user {address.username or 'default'!r} ({text}): allow its keys and "
            f"{advice.commands}{more}",
            key=PROVIDER_CONFIG,
        )
    if said("WRONGTYPE", "not an integer", "Bad data", "Missing bytes"):
        return StateCorrupted(
            f"{address} holds something under a key of {namespace} that Anchorbolt did not write ({text}). "
            f"{advice.not_ours}",
            namespace=namespace,
        )
    if said("invalid bulk length", "invalid multibulk length"):
        return StateError(
            f"{address} takes no string as long as one of these keys or values ({text}): {advice.too_long}",
            namespace=namespace,
        )
    if isinstance(address, RedisCluster):
        reason = _of_cluster(error, text)
        if reason:
            return unavailable(reason)
    elif isinstance(address, RedisServer):
        of_a_cluster = isinstance(error, MovedError | ClusterError | ClusterCrossSlotError)
        if of_a_cluster or said("MOVED ", "CLUSTERDOWN", "CROSSSLOT"):
            return ConfigError(
                f"{address} is a node of a Redis Cluster ({text}): {advice.use_cluster}", key=PROVIDER_CONFIG
            )
        if said("DB index is out of range", "invalid DB index"):
            return ConfigError(f"{address} has no database {address.database}: choose a lower one", key=PROVIDER_CONFIG)
    reason = _of_server(address, error, text)
    if reason:
        return unavailable(reason)
    return StateError(f"{address} refused ({text}): Redis 5 or newer is needed", namespace=namespace)


def refuse_eviction(address: RedisAddress, memory: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if a server may evict keys, according to its `INFO memory`."""
    if memory.get("maxmemory") and str(memory.get("maxmemory_policy", "")).startswith("allkeys"):
        raise ConfigError(
            f"{address} drops keys when its memory is full (maxmemory-policy {memory['maxmemory_policy']}), so state "
            "would be lost. Set it to noeviction: redis-cli CONFIG SET maxmemory-policy noeviction, and the same in "
            "redis.conf.",
            key=PROVIDER_CONFIG,
        )


def _of_cluster(error: Exception, text: str) -> str:
    """Return why a cluster cannot serve; empty if the reason is not specific to clusters."""
    if isinstance(error, ClusterDownError | SlotNotCoveredError) or "CLUSTERDOWN" in text:
        return (
            f"has a slot that no server serves ({text}): a master is down and no replica has taken over yet. "
            "See CLUSTER INFO; start the master again, or have a replica take over by CLUSTER FAILOVER"
        )
    moving = ("TRYAGAIN", "TTL exhausted", "MOVED ", "ASK ", "non local key")
    if isinstance(error, TryAgainError | MovedError | ClusterError) or any(sign in text for sign in moving):
        return (
            f"is moving the slot of the namespace to another server ({text}): its keys are back when all of them have "
            "been moved. If nobody is moving slots, see redis-cli --cluster check and --cluster fix"
        )
    if isinstance(error, RedisClusterException):
        return f"cannot be reached ({text}): check that its servers run, and the nodes that are named"
    return ""


def _of_server(address: RedisAddress, error: Exception, text: str) -> str:
    """Return why a server cannot serve now; empty if it refused the command for another reason."""

    def said(*signs: str) -> bool:
        return any(sign in text for sign in signs)

    if isinstance(error, BusyLoadingError):
        return f"is still loading its data ({text}): try again when it has finished"
    if isinstance(error, ReadOnlyError) or said("READONLY"):
        return f"is a read-only replica ({text}): name the master instead"
    if isinstance(error, OutOfMemoryError) or said("OOM "):
        return f"has reached its maxmemory ({text}): raise it, or free some space"
    if said("NOREPLICAS"):
        return f"has fewer replicas than its min-replicas-to-write ({text}): start them, or lower it"
    if said("MISCONF"):
        return f"cannot save to its disk ({text}): free some space there; its log says more"
    if said("BUSY "):
        return f"is busy with somebody's script ({text}): wait for it, or end it by SCRIPT KILL"
    if isinstance(error, redis.TimeoutError):
        return (
            f"did not answer within {address.timeout_ms} ms ({text}): check the network and its load"
            f"{', and whether TLS is on there' if address.tls else ''}, or raise the timeout"
        )
    if isinstance(error, InvalidResponse):
        return f"does not answer as Redis does ({text}): check host, port and whether TLS is on there"
    if isinstance(error, redis.ConnectionError | OSError):
        tls = said("SSL", "certificate")
        hint = "check the certificates" if tls else "check that it runs, host and port, and whether TLS is on there"
        return f"cannot be reached ({text}): {hint}"
    return ""


def _first(error: Exception) -> Exception:
    """Return the first error behind an error of redis-py's cluster client, which reports only "not in cluster mode"."""
    while isinstance(error, RedisClusterException):
        earlier = error.__cause__ or error.__context__
        if not isinstance(earlier, REDIS_ERRORS):
            break
        error = earlier
    return error
