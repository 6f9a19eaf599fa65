"""The inner keys of `topology.state.provider.config`, with their defaults and what their values may be.

A field's description completes the sentence "must be …". Only `config` and its parts use this.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from anchorbolt.config.secret import Secret

PROVIDERS = ("memory", "sqlite", "redis", "redis-cluster", "hbase")
STORM_PROVIDERS = {
    "org.apache.storm.state.InMemoryKeyValueStateProvider": "memory",
    "org.apache.storm.redis.state.RedisKeyValueStateProvider": "redis",
    "org.apache.storm.hbase.state.HBaseKeyValueStateProvider": "hbase",
}
"""Storm's Java class names, and which provider takes their place."""

_Name = Annotated[str, StringConstraints(min_length=1)]
# No URL: the password that it can hold would be shown wherever the host is.
_Host = Annotated[str, StringConstraints(pattern=r"^[^@/\s]+$")]
_Node = Annotated[str, StringConstraints(pattern=r"^[^@/\s]+:[0-9]{1,5}$")]
_Count = Annotated[int, Field(ge=1)]
_STORM_SERIALIZERS = {
    "org.apache.storm.state.DefaultStateSerializer",
    # What Storm's documentation has where a class may be named, so that its examples can be taken as they are.
    "...",
    "Optional Key serializer implementation class.",
    "Optional Value Serializer implementation class.",
}


def _serializer(name: str) -> str:
    if name in _STORM_SERIALIZERS:
        return "msgpack"
    parts = name.split(".")
    is_class = len(parts) > 1 and parts[:2] != ["org", "apache"] and all(map(str.isidentifier, parts))
    if name not in ("msgpack", "json", "pickle") and not is_class:
        raise ValueError("no serializer")
    return name


_Serializer = Annotated[str, AfterValidator(_serializer)]
_KEY_SERIALIZERS = "msgpack, json, or the dotted name of a Serializer class of yours"
_VALUE_SERIALIZERS = "msgpack, json, pickle, or the dotted name of a Serializer class of yours"


class Keys(BaseModel):
    """What all models have in common: no conversions, and no unknown keys."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True
    )


class TlsConfig(Keys):
    """Below `tls`."""

    ca: _Name | None = Field(default=None, description="the path of a PEM file")
    cert: _Name | None = Field(default=None, description="the path of a PEM file")
    key: _Name | None = Field(default=None, description="the path of a PEM file")
    verify: bool = Field(default=True, description="true or false")


class RedisLogin(Keys):
    """What a server and a cluster have in common."""

    timeout: _Count = Field(default=2000, description="a whole number of milliseconds, at least 1")
    username: _Name | None = Field(default=None, description="the name of an ACL user")
    password: Secret | None = Field(
        default=None, description="a string; quote it where it looks like a number"
    )
    passwordEnv: _Name | None = Field(default=None, description="the name of an environment variable")  # noqa: N815
    passwordFile: _Name | None = Field(default=None, description="the path of a file")  # noqa: N815
    tls: TlsConfig | None = Field(default=None, description="a mapping with the keys ca, cert, key, verify")


class JedisPoolConfig(RedisLogin):
    """Below `jedisPoolConfig`."""

    host: _Host = Field(default="localhost", description="the name or address of the server, not a URL")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=6379, description="a TCP port, from 1 to 65535"
    )
    database: Annotated[int, Field(ge=0)] = Field(
        default=0, description="the number of a database, at least 0"
    )


class JedisClusterConfig(RedisLogin):
    """Below `jedisClusterConfig`."""

    nodes: Annotated[list[_Node], Field(min_length=1)] = Field(
        default=["localhost:6379"], description="a list of some of the servers, each as host:port"
    )
    maxRedirections: Annotated[int, Field(ge=0)] = Field(  # noqa: N815
        default=5, description="a whole number, at least 0"
    )


class HBaseThriftConfig(Keys):
    """Below `thriftConfig`."""

    host: _Host = Field(
        default="localhost", description="the name or address of the Thrift server, not a URL"
    )
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=9090, description="a TCP port, from 1 to 65535"
    )
    timeout: _Count = Field(default=2000, description="a whole number of milliseconds, at least 1")
    transport: Literal["buffered", "framed"] = Field(default="buffered", description="buffered or framed")
    protocol: Literal["binary", "compact"] = Field(default="binary", description="binary or compact")
    tls: TlsConfig | None = Field(default=None, description="a mapping with the keys ca, cert, key, verify")


class ProviderConfig(Keys):
    """Below `topology.state.provider.config`, for the providers of this package."""

    keyClass: str | None = Field(default=None, description="a string")  # noqa: N815
    valueClass: str | None = Field(default=None, description="a string")  # noqa: N815
    keySerializerClass: _Serializer = Field(default="msgpack", description=_KEY_SERIALIZERS)  # noqa: N815
    valueSerializerClass: _Serializer = Field(default="msgpack", description=_VALUE_SERIALIZERS)  # noqa: N815
    directory: _Name | None = Field(default=None, description="the path of a directory")
    jedisPoolConfig: JedisPoolConfig = Field(  # noqa: N815
        default_factory=lambda: JedisPoolConfig(), description="a mapping with the keys of a Redis server"
    )
    jedisClusterConfig: JedisClusterConfig = Field(  # noqa: N815
        default_factory=lambda: JedisClusterConfig(), description="a mapping with the keys of a Redis Cluster"
    )
    tableName: _Name | None = Field(default=None, description="the name of a table")  # noqa: N815
    columnFamily: _Name | None = Field(default=None, description="the name of a column family")  # noqa: N815
    createTable: bool = Field(default=False, description="true or false")  # noqa: N815
    largestValue: _Count | None = Field(default=None, description="a whole number of bytes, at least 1")  # noqa: N815
    thriftConfig: HBaseThriftConfig = Field(  # noqa: N815
        default_factory=lambda: HBaseThriftConfig(),
        description="a mapping with the keys of a Thrift server of HBase",
    )
    hbaseConfigKey: _Name | None = Field(  # noqa: N815
        default=None, description="the name of a key of the configuration"
    )
