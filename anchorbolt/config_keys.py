"""The configuration keys that Anchorbolt knows, with their defaults and what their values may be, as pydantic models.

A field's alias is its key; its description completes the sentence "must be …". Only `config` uses this.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from anchorbolt.secret import Secret

__all__ = [
    "LATER_INNER_KEYS",
    "LATER_PROVIDERS",
    "PROVIDERS",
    "PROVIDER_CONFIG",
    "STORM_PROVIDERS",
    "JedisPoolConfig",
    "ProviderConfig",
    "TlsConfig",
    "TopologyConfig",
]

PROVIDER_CONFIG = "topology.state.provider.config"

PROVIDERS = ("memory", "sqlite", "redis")
LATER_PROVIDERS = ("redis-cluster", "hbase")
STORM_PROVIDERS = {
    "org.apache.storm.state.InMemoryKeyValueStateProvider": "memory",
    "org.apache.storm.redis.state.RedisKeyValueStateProvider": "redis",
    "org.apache.storm.hbase.state.HBaseKeyValueStateProvider": "hbase",
}
"""Storm's Java class names, and which provider takes their place."""

LATER_INNER_KEYS = {
    "jedisClusterConfig": "redis-cluster",
    "hbaseConfigKey": "hbase",
    "tableName": "hbase",
    "columnFamily": "hbase",
    "thriftConfig": "hbase",
}
"""Inner keys of the providers that are not here yet."""

_Name = Annotated[str, StringConstraints(min_length=1)]
_Count = Annotated[int, Field(ge=1)]
_Serializer = Literal["msgpack", "json"]


class _Keys(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )


class TlsConfig(_Keys):
    """Below `jedisPoolConfig.tls`."""

    ca: _Name | None = Field(default=None, description="the path of a PEM file")
    cert: _Name | None = Field(default=None, description="the path of a PEM file")
    key: _Name | None = Field(default=None, description="the path of a PEM file")
    verify: bool = Field(default=True, description="true or false")


class JedisPoolConfig(_Keys):
    """Below `jedisPoolConfig`."""

    host: _Name = Field(default="localhost", description="the name or address of the server")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=6379, description="a TCP port, from 1 to 65535"
    )
    timeout: _Count = Field(default=2000, description="a whole number of milliseconds, at least 1")
    database: Annotated[int, Field(ge=0)] = Field(
        default=0, description="the number of a database, at least 0"
    )
    username: _Name | None = Field(default=None, description="the name of an ACL user")
    password: Secret | None = Field(
        default=None, description="a string; quote it where it looks like a number"
    )
    passwordEnv: _Name | None = Field(default=None, description="the name of an environment variable")  # noqa: N815
    passwordFile: _Name | None = Field(default=None, description="the path of a file")  # noqa: N815
    tls: TlsConfig | None = Field(default=None, description="a mapping with the keys ca, cert, key, verify")


class ProviderConfig(_Keys):
    """Below `topology.state.provider.config`, for the providers of this package."""

    keyClass: str | None = Field(default=None, description="a string")  # noqa: N815
    valueClass: str | None = Field(default=None, description="a string")  # noqa: N815
    keySerializerClass: _Serializer = Field(default="msgpack", description="msgpack or json")  # noqa: N815
    valueSerializerClass: _Serializer = Field(default="msgpack", description="msgpack or json")  # noqa: N815
    directory: _Name | None = Field(default=None, description="the path of a directory")
    jedisPoolConfig: JedisPoolConfig = Field(  # noqa: N815
        default_factory=lambda: JedisPoolConfig(), description="a mapping with the keys of a Redis server"
    )


class TopologyConfig(_Keys):
    """The keys with an effect, by alias."""

    provider: _Name = Field(
        default="sqlite", alias="topology.state.provider", description="the name of a state provider"
    )
    provider_config: dict[str, Any] = Field(
        default_factory=dict,
        alias="topology.state.provider.config",
        description="a mapping, or a JSON object in a string",
    )
    namespace_prefix: (
        Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,127})?$")] | None
    ) = Field(
        default=None,
        alias="topology.state.namespace.prefix",
        description="empty, or 1 to 128 of the characters A-Z a-z 0-9 _ . - without a leading dot",
    )
    checkpoint_interval_ms: Annotated[int, Field(ge=100)] = Field(
        default=1000,
        alias="topology.state.checkpoint.interval.ms",
        description="a whole number of milliseconds, at least 100",
    )
    checkpoint_location: _Name | None = Field(
        default=None, alias="topology.checkpoint.location", description="a path or a URI"
    )
    accept_new_query: bool = Field(
        default=False, alias="topology.checkpoint.accept.new.query", description="true or false"
    )
    message_timeout_secs: _Count = Field(
        default=30, alias="topology.message.timeout.secs", description="a whole number of seconds, at least 1"
    )
    max_batch_retries: Annotated[int, Field(ge=0)] = Field(
        default=3, alias="topology.max.batch.retries", description="a whole number, at least 0"
    )
    cache_max_entries: Annotated[int, Field(ge=0)] = Field(
        default=200_000, alias="topology.state.cache.max.entries", description="a whole number, at least 0"
    )
    pending_max_entries: _Count = Field(
        default=100_000, alias="topology.state.pending.max.entries", description="a whole number, at least 1"
    )
    blob_bytes: Annotated[int, Field(ge=1024, le=1 << 28)] = Field(
        default=1 << 20,
        alias="topology.transfer.blob.bytes",
        description=f"a whole number of bytes, from 1024 to {1 << 28}",
    )
    buffer_tuples: _Count = Field(
        default=16_384, alias="topology.transfer.buffer.tuples", description="a whole number, at least 1"
    )
