"""Common to all spouts over Redis streams: their arguments and the checks, and the values of a tuple from an entry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret, find_password
from anchorbolt.errors import ConfigError, TopologyError
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.util.messages import shortened

_PASSWORD_ARGUMENTS = ("password", "password_env", "password_file")


@dataclasses.dataclass(frozen=True)
class RedisConnection:
    """A server or a cluster, the login, and the source of the password."""

    provider: RedisStateProvider | RedisClusterStateProvider
    password_env: str | None
    password_file: str | None

    def address(self) -> RedisAddress:
        """Return address and login. Raises `ConfigError` if the password cannot be read."""
        password = find_password(_PASSWORD_ARGUMENTS, self.provider.password, self.password_env, self.password_file)
        return dataclasses.replace(self.provider, password=password).address


def connection_of(
    spout: str,
    *,
    host: str,
    port: int,
    database: int,
    nodes: Sequence[str] | None,
    username: str | None,
    password: Secret | str | None,
    password_env: str | None,
    password_file: str | None,
    timeout_ms: int,
    tls: TlsSettings | Mapping[str, Any] | None,
) -> RedisConnection:
    """Return the connection that a spout's arguments describe; the arguments are those of `RedisStreamsSpout`.

    `spout` is the name of its class. Raises `ConfigError` if an argument is invalid or contradicts another.
    """
    places = (password, password_env, password_file)
    given = [name for name, value in zip(_PASSWORD_ARGUMENTS, places, strict=True) if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{spout}: {' and '.join(given)} are given. Pass one of them.", key=given[1])
    common: dict[str, Any] = {
        "username": username,
        "password": Secret(password) if isinstance(password, str) else password,
        "timeout_ms": timeout_ms,
        "tls": tls,
    }
    provider: RedisStateProvider | RedisClusterStateProvider
    if nodes is None:
        provider = RedisStateProvider(host, port, database=database, **common)
    elif (host, port, database) == ("localhost", 6379, 0):
        provider = RedisClusterStateProvider(nodes, **common)
    else:
        raise ConfigError(
            f"{spout}: nodes is given, and host, port or database too. Pass nodes for a Redis Cluster, or host, port "
            "and database for a server.",
            key="nodes",
        )
    return RedisConnection(provider, password_env, password_file)


def stream_keys(spout: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the argument `streams`. Raises `TopologyError` if it is neither a key nor a list of keys."""
    if given == "":
        raise refusal(spout, "streams", given, "Pass the key of a stream, or a list of keys.")
    return (given,) if isinstance(given, str) else names(spout, "streams", given)


def names(spout: str, argument: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return the names in an argument. Raises `TopologyError` unless it is a list of different names."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or not given:
        raise refusal(spout, argument, given, "Pass a list of names.")
    for name in given:
        if not isinstance(name, str) or not name:
            raise refusal(spout, argument, given, "Pass each name as a string.")
    if len(set(given)) < len(given):
        raise refusal(spout, argument, given, "Pass each name once.")
    return tuple(given)


def refusal(spout: str, argument: str, given: object, advice: str) -> TopologyError:
    """Return the error for an argument that a spout cannot use."""
    return TopologyError(f"{spout}: {argument} is {shortened(given)}. {advice}")


def values_of(names: Sequence[bytes], decode: bool) -> Callable[[dict[bytes, bytes]], tuple[Any, ...]]:
    """Return a function from an entry's fields to a tuple's values. It is called for each entry."""
    get = itemgetter(*names)
    single = len(names) == 1

    def of_entry(fields: dict[bytes, bytes]) -> tuple[Any, ...]:
        try:
            found = get(fields)
            if not decode:
                return (found,) if single else found
            return (found.decode(),) if single else tuple([value.decode() for value in found])
        except (KeyError, UnicodeDecodeError):
            return tuple([_decoded(fields.get(name), decode) for name in names])

    return of_entry


def _decoded(value: bytes | None, decode: bool) -> bytes | str | None:
    if value is None or not decode:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
