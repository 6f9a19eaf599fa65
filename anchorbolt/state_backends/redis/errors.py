"""Translates redis-py's errors into Anchorbolt's, whose messages end with the next action."""

from dataclasses import dataclass
from typing import Any

from redis import exceptions

from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.errors import AnchorboltError, ConfigError, StateCorrupted, StateError, StateUnavailable
from anchorbolt.state_backends.contract import START_OVER
from anchorbolt.state_backends.redis.addresses import RedisAddress, RedisCluster

REDIS_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
"""The errors that redis-py raises for problems of a server, the network or the cluster."""


@dataclass(frozen=True)
class Advice:
    """The parts of messages, and the error types, that depend on the use of a server. The defaults are for a state."""

    use_server: str = "set topology.state.provider to redis"
    use_cluster: str = "set topology.state.provider to redis-cluster"
    commands: str = (
        "EVALSHA, EVAL, MULTI, EXEC, SCAN, HMGET, HGET, HGETALL, HKEYS, HLEN, HSCAN, HSET, HDEL, HINCRBY, UNLINK, "
        "RENAME"
    )
    not_ours: str = f"{START_OVER}; if another program owns the key, use another database or prefix"
    too_long: str = "raise proto-max-bulk-len in redis.conf, or set largestValue in the provider's configuration lower"
    key: str | None = PROVIDER_CONFIG  # of a `ConfigError`
    unavailable: type[StateUnavailable] = StateUnavailable


_NO_CLUSTER = "cluster support disabled"
_NO_LOGIN = (exceptions.AuthenticationError, exceptions.AuthorizationError)

# The signs of an error (types, and parts of its text), Anchorbolt's error, and its message after the address. The first
# row with a matching sign applies.
_Row = tuple[tuple[type[Exception] | str, ...], Any, str]
_REFUSED: tuple[_Row, ...] = (
    ((_NO_CLUSTER,), ConfigError, "is a server of no cluster ({text}): {advice.use_server}"),
    ((*_NO_LOGIN, "NOAUTH", "WRONGPASS"), ConfigError, "refused the login ({text}): check username and password"),
    (
        (exceptions.NoPermissionError, "NOPERM", "ACL failure", "The user executing the script", "o permissions"),
        ConfigError,
        "does not permit it to user {user!r} ({text}): allow its keys and {advice.commands}{more_commands}",
    ),
    (
        ("WRONGTYPE", "not an integer", "Bad data", "Missing bytes"),
        StateCorrupted,
        "holds something under a key of {namespace} that Anchorbolt did not write ({text}). {advice.not_ours}",
    ),
    (
        ("invalid bulk length", "invalid multibulk length"),
        StateError,
        "takes no string as long as one of these keys or values ({text}): {advice.too_long}",
    ),
)
_OF_A_CLUSTER: tuple[_Row, ...] = (
    (
        (exceptions.ClusterDownError, exceptions.SlotNotCoveredError, "CLUSTERDOWN"),
        StateUnavailable,
        "has a slot that no server serves ({text}): a master is down and no replica has taken over yet. See CLUSTER "
        "INFO; start the master again, or have a replica take over by CLUSTER FAILOVER",
    ),
    (
        (
            *(exceptions.TryAgainError, exceptions.MovedError, exceptions.ClusterError),
            *("TRYAGAIN", "TTL exhausted", "MOVED ", "ASK ", "non local key"),
        ),
        StateUnavailable,
        "is moving the slot of the namespace to another server ({text}): its keys are back when all of them have been "
        "moved. If nobody is moving slots, see redis-cli --cluster check and --cluster fix",
    ),
    (
        (exceptions.RedisClusterException,),
        StateUnavailable,
        "cannot be reached ({text}): check that its servers run, and the nodes that are named",
    ),
)
_OF_A_SERVER: tuple[_Row, ...] = (
    (
        (
            *(exceptions.MovedError, exceptions.ClusterError, exceptions.ClusterCrossSlotError),
            *("MOVED ", "CLUSTERDOWN", "CROSSSLOT"),
        ),
        ConfigError,
        "is a node of a Redis Cluster ({text}): {advice.use_cluster}",
    ),
    (
        ("DB index is out of range", "invalid DB index"),
        ConfigError,
        "has no database {address.database}: choose a lower one",
    ),
)
_CANNOT_SERVE = (
    ((exceptions.BusyLoadingError,), "is still loading its data ({text}): try again when it has finished"),
    ((exceptions.ReadOnlyError, "READONLY"), "is a read-only replica ({text}): name the master instead"),
    ((exceptions.OutOfMemoryError, "OOM "), "has reached its maxmemory ({text}): raise it, or free some space"),
    (("NOREPLICAS",), "has fewer replicas than its min-replicas-to-write ({text}): start them, or lower it"),
    (("MISCONF",), "cannot save to its disk ({text}): free some space there; its log says more"),
    (("BUSY ",), "is busy with somebody's script ({text}): wait for it, or end it by SCRIPT KILL"),
    (
        (exceptions.TimeoutError,),
        "did not answer within {address.timeout_ms} ms ({text}): check the network and its load{and_tls}, or raise the "
        "timeout",
    ),
    (
        (exceptions.InvalidResponse,),
        "does not answer as Redis does ({text}): check host, port and whether TLS is on there",
    ),
    (("SSL", "certificate"), "cannot be reached ({text}): check the certificates"),
    (
        (exceptions.ConnectionError, OSError),
        "cannot be reached ({text}): check that it runs, host and port, and whether TLS is on there",
    ),
)
_UNAVAILABLE: tuple[_Row, ...] = tuple((signs, StateUnavailable, message) for signs, message in _CANNOT_SERVE)
_ANY_OTHER: _Row = ((Exception,), StateError, "refused ({text}): Redis 5 or newer is needed")


def is_final(error: Exception) -> bool:
    """Whether a retry cannot help, as after a wrong password."""
    first = _first(error)
    return isinstance(first, _NO_LOGIN) or _NO_CLUSTER in str(first)


def translated(address: RedisAddress, namespace: str | None, error: Exception, advice: Advice) -> AnchorboltError:
    """Return Anchorbolt's error for an error of redis-py."""
    error = _first(error)
    text = str(error)
    is_cluster = isinstance(address, RedisCluster)
    error_class, message = next(
        (error_class, message)
        for signs, error_class, message in (
            *_REFUSED,
            *(_OF_A_CLUSTER if is_cluster else _OF_A_SERVER),
            *_UNAVAILABLE,
            _ANY_OTHER,
        )
        if any(sign in text if isinstance(sign, str) else isinstance(error, sign) for sign in signs)
    )
    said = message.format(
        address=address,
        namespace=namespace,
        text=text,
        advice=advice,
        user=address.username or "default",
        more_commands=", CLUSTER SLOTS, COMMAND, ASKING" if is_cluster else "",
        and_tls=", and whether TLS is on there" if address.tls else "",
    )
    if error_class is StateUnavailable:
        error_class = advice.unavailable
    where = {"key": advice.key} if error_class is ConfigError else {"namespace": namespace}
    translation: AnchorboltError = error_class(f"{address} {said}", **where)
    return translation


def _first(error: Exception) -> Exception:
    """Return the original error of an error of redis-py's cluster client, which says only "not in cluster mode"."""
    while isinstance(error, exceptions.RedisClusterException):
        earlier = error.__cause__ or error.__context__
        if not isinstance(earlier, REDIS_ERRORS):
            break
        error = earlier
    return error
