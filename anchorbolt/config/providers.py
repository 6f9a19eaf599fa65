"""The settings of the state providers: each provider's class extends a settings class, and so accepts its arguments.

In a configuration the fields are grouped as in Storm: `GROUPS` has the keys below `jedisPoolConfig`,
`jedisClusterConfig` and `thriftConfig`; the keys of `UNGROUPED` are beside these groups.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anchorbolt.config.declaration import (
    FLAG,
    PASSWORD,
    Accepted,
    Checked,
    Setting,
    by_key,
    holds,
    read_values,
    setting,
    text,
    whole,
)
from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError

PROVIDER = "topology.state.provider"
PROVIDER_CONFIG = "topology.state.provider.config"

PROVIDERS = ("memory", "sqlite", "redis", "redis-cluster", "hbase")

DATA_DIRECTORY = "anchorbolt-data"
"""Default directory of state and checkpoints, below the current directory."""

_PEM = text("the path of a PEM file")
_PORT = whole(1, 65535, what="a TCP port")
_TIMEOUT = whole(1, unit="milliseconds")
# Not a URL: a URL may contain a password, which would be shown together with the host.
_HOST = r"[^@/\s]+"
_SERVER = text("the name or address of the server, not a URL", _HOST)
_NODE = re.compile(r"(?:\[[^@/\s\[\]]+\]|[^@/\s\[\]]+):([0-9]{1,5})")
_HBASE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HBASE_CHARACTERS = "of letters, digits, '_', '.' and '-', and start with a letter, a digit or '_'"
_TABLE = text(f"the name of a table: made {_HBASE_CHARACTERS}", rf"({_HBASE_NAME}:)?{_HBASE_NAME}")
_FAMILY = text(f"the name of a column family: made {_HBASE_CHARACTERS}", _HBASE_NAME)


def _is_node(node: object) -> bool:
    found = _NODE.fullmatch(node) if isinstance(node, str) else None
    return found is not None and 0 < int(found[1]) < 65536


_NODES = Accepted(
    lambda value: isinstance(value, (list, tuple)) and len(value) > 0 and all(map(_is_node, value)),
    "a list of at least one node, each as host:port, not as a URL",
)


@dataclass(frozen=True, kw_only=True)
class TlsSettings(Checked):
    """The TLS settings of a connection; all files are PEM."""

    ca: str | None = setting(_PEM, None)  # the trusted authorities; None means the system's
    cert: str | None = setting(_PEM, None)
    key: str | None = setting(_PEM, None)
    verify: bool = setting(FLAG, True)  # whether the server's certificate and name are checked

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.key is not None and self.cert is None:
            raise ConfigError("key is set, but cert is not. Name the certificate that the key belongs to.", key="key")


_TLS = Accepted(
    lambda value: isinstance(value, (Mapping, TlsSettings)), "a mapping with the keys ca, cert, key, verify"
)


def read_tls(given: Any, key: str = "tls") -> TlsSettings | None:
    """Return the settings below a key `tls`. Raises `ConfigError` if they are invalid."""
    if given is None or isinstance(given, TlsSettings):
        return given
    values = read_values(by_key(TlsSettings), given, key)
    try:
        return TlsSettings(**values)
    except ConfigError as error:
        raise ConfigError(f"{key}.{error.message}", key=f"{key}.{error.key}") from None


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Checked):
    """The common settings of all providers on a server."""

    timeout_ms: int = setting(_TIMEOUT, 2000, key="timeout")
    tls: TlsSettings | None = setting(_TLS, None)
    largest_value: int | None = setting(whole(1, unit="bytes"), None, key="largestValue")

    def __post_init__(self) -> None:
        object.__setattr__(self, "tls", read_tls(self.tls))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class RedisLogin(ServerSettings):
    """The common settings of a Redis server and a Redis Cluster."""

    username: str | None = setting(text("the name of an ACL user"), None)
    password: Secret | None = setting(PASSWORD, None)


@dataclass(frozen=True, kw_only=True)
class RedisSettings(RedisLogin):
    """A Redis server."""

    host: str = field(default="localhost", kw_only=False, metadata=holds(_SERVER))
    port: int = field(default=6379, kw_only=False, metadata=holds(_PORT))
    database: int = setting(whole(0, what="the number of a database"), 0)


@dataclass(frozen=True, kw_only=True)
class RedisClusterSettings(RedisLogin):
    """A Redis Cluster."""

    nodes: Sequence[str] = field(default=("localhost:6379",), kw_only=False, metadata=holds(_NODES))
    max_redirections: int = setting(whole(0), 5, key="maxRedirections")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nodes", tuple(self.nodes))

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of the nodes; an IPv6 address without its brackets."""
        split = [node.rpartition(":") for node in self.nodes]
        return tuple((host.removeprefix("[").removesuffix("]"), int(port)) for host, _, port in split)


@dataclass(frozen=True, kw_only=True)
class HBaseSettings(ServerSettings):
    """A table of HBase, and its Thrift server."""

    table: str = field(kw_only=False, metadata=holds(_TABLE, "tableName"))
    column_family: str = field(kw_only=False, metadata=holds(_FAMILY, "columnFamily"))
    host: str = setting(text("the name or address of the Thrift server, not a URL", _HOST), "localhost")
    port: int = setting(_PORT, 9090)
    transport: str = setting(text("buffered or framed", "buffered|framed"), "buffered")
    protocol: str = setting(text("binary or compact", "binary|compact"), "binary")
    create_table: bool = setting(FLAG, False, key="createTable")


_STORM_SERIALIZERS = {
    "org.apache.storm.state.DefaultStateSerializer",
    # The placeholder for a class name in Storm's documentation, so that its examples can be used unchanged.
    "...",
    "Optional Key serializer implementation class.",
    "Optional Value Serializer implementation class.",
}


def is_class_name(name: str) -> bool:
    """Return whether a name is dotted and may be a user's class: Storm's own class names are not."""
    parts = name.split(".")
    return len(parts) > 1 and parts[:2] != ["org", "apache"] and all(map(str.isidentifier, parts))


def _is_serializer(name: object) -> bool:
    known = {"msgpack", "json", "pickle", *_STORM_SERIALIZERS}
    return isinstance(name, str) and (name in known or is_class_name(name))


_OWN_CLASS = "or the dotted name of a Serializer class of yours"
_TEXT = text("a string", "(?s).*")


@dataclass(frozen=True, kw_only=True)
class ProviderSettings(Checked):
    """Which state provider to use, and the settings of each."""

    name: str = "sqlite"  # one of `PROVIDERS`, or the dotted name of a user's class
    is_set: bool = False  # whether the configuration named it; otherwise it is the default
    key_serializer: str = setting(
        Accepted(_is_serializer, f"msgpack, json, {_OWN_CLASS}"), "msgpack", key="keySerializerClass"
    )
    value_serializer: str = setting(
        Accepted(_is_serializer, f"msgpack, json, pickle, {_OWN_CLASS}"), "msgpack", key="valueSerializerClass"
    )
    key_class: str | None = setting(_TEXT, None, key="keyClass")
    value_class: str | None = setting(_TEXT, None, key="valueClass")
    directory: str | None = setting(text("the path of a directory"), None)
    hbase_config_key: str | None = setting(text("the name of a key of the configuration"), None, key="hbaseConfigKey")
    redis: RedisSettings = RedisSettings()
    redis_cluster: RedisClusterSettings = RedisClusterSettings()
    hbase: HBaseSettings | None = None  # None with any other provider
    custom: Mapping[str, Any] = field(default_factory=dict)  # for a user's class; passwords in it are `Secret`s

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("key_serializer", "value_serializer"):
            if getattr(self, name) in _STORM_SERIALIZERS:
                object.__setattr__(self, name, "msgpack")

    @property
    def state_directory(self) -> str:
        """SQLite's state directory, absolute."""
        return os.path.abspath(self.directory or os.path.join(DATA_DIRECTORY, "state"))


@dataclass(frozen=True, kw_only=True)
class PasswordPlace(Checked):
    """The location of a password outside the configuration."""

    env: str | None = setting(text("the name of an environment variable"), None, key="passwordEnv")
    file: str | None = setting(text("the path of a file"), None, key="passwordFile")


_BESIDE_GROUPS = {"largestValue", "tableName", "columnFamily", "createTable"}


def _grouped(*kinds: type[Any]) -> dict[str, Setting]:
    return {key: each for key, each in by_key(*kinds).items() if key not in _BESIDE_GROUPS}


GROUPS = {
    "jedisPoolConfig": _grouped(RedisSettings, PasswordPlace),
    "jedisClusterConfig": _grouped(RedisClusterSettings, PasswordPlace),
    "thriftConfig": _grouped(HBaseSettings),
}
UNGROUPED = by_key(ProviderSettings) | {
    key: each for key, each in by_key(HBaseSettings).items() if key in _BESIDE_GROUPS
}
