"""What a validated configuration says, typed: for the engines, and for building a state provider.

Made by `config`, on the driver. Plain data that any layer may import; never reads a file or the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anchorbolt.config.secret import Secret
from anchorbolt.util.locations import local_path

PROVIDER_CONFIG = "topology.state.provider.config"
"""The key below which the providers' own keys are, for messages."""

DATA_DIRECTORY = "anchorbolt-data"
"""Where state and checkpoints go when nothing else is configured: below the current directory."""


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """How to encrypt a connection; all files are PEM.

    Attributes:
        ca: File of the authorities to trust; None means the system's.
        cert: File of this client's certificate.
        key: File of its key.
        verify: Whether the server's certificate and name are checked.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """How to reach a Redis server.

    Attributes:
        host: Name or address.
        port: TCP port.
        timeout_ms: Time for connecting and for each answer, in ms.
        database: Number of the database.
        username: ACL user; None means the default one.
        password: Its password.
        tls: How to encrypt; None means not at all.
    """

    host: str = "localhost"
    port: int = 6379
    timeout_ms: int = 2000
    database: int = 0
    username: str | None = None
    password: Secret | None = None
    tls: TlsSettings | None = None


@dataclass(frozen=True, kw_only=True)
class RedisClusterSettings:
    """How to reach a Redis Cluster.

    Attributes:
        nodes: Some of its servers, each as `host:port`.
        timeout_ms: Time for connecting and for each answer, in ms.
        max_redirections: How many times a command follows a redirection.
        username: ACL user; None means the default one.
        password: Its password.
        tls: How to encrypt; None means not at all.
    """

    nodes: tuple[str, ...] = ("localhost:6379",)
    timeout_ms: int = 2000
    max_redirections: int = 5
    username: str | None = None
    password: Secret | None = None
    tls: TlsSettings | None = None


@dataclass(frozen=True, kw_only=True)
class HBaseSettings:
    """Where in HBase state lies, and how to reach its Thrift server.

    Attributes:
        table: Name of the table.
        column_family: Name of the column family.
        create_table: Whether to create the table where it is missing.
        host: Name or address of the Thrift server.
        port: Its TCP port.
        timeout_ms: Time for one exchange with it, in ms.
        transport: `buffered` or `framed`.
        protocol: `binary` or `compact`.
        tls: How to encrypt; None means not at all.
    """

    table: str
    column_family: str
    create_table: bool = False
    host: str = "localhost"
    port: int = 9090
    timeout_ms: int = 2000
    transport: str = "buffered"
    protocol: str = "binary"
    tls: TlsSettings | None = None


@dataclass(frozen=True, kw_only=True)
class ProviderSettings:
    """Which state provider to use.

    Attributes:
        name: `memory`, `sqlite`, `redis`, `redis-cluster`, `hbase`, or the dotted name of a user's class.
        is_set: Whether the configuration named it; else it is the default.
        directory: SQLite's state directory as configured; see `Settings.state_directory`.
        redis: How to reach a Redis server.
        redis_cluster: How to reach a Redis Cluster.
        hbase: Where in HBase; None with any other provider.
        largest_value: Bytes of the largest value that Redis or HBase are to take; None means what they take by default.
        custom: For a user's class, the provider's configuration; passwords in it are `Secret`s. Empty otherwise.
    """

    name: str = "sqlite"
    is_set: bool = False
    directory: str | None = None
    redis: RedisSettings = RedisSettings()
    redis_cluster: RedisClusterSettings = RedisClusterSettings()
    hbase: HBaseSettings | None = None
    largest_value: int | None = None
    custom: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run, defaults filled in. `docs/configuration.md` says what each one means.

    Attributes:
        provider: Which state provider to use.
        key_serializer: What encodes the states' keys: `msgpack`, `json`, or the dotted name of a user's class.
        value_serializer: What encodes their values: one of these, or `pickle`.
        namespace_prefix: What stands before the colon in a namespace: None for the topology's name, empty for nothing.
        checkpoint_interval_ms: Shortest wave, in ms.
        checkpoint_location: Streaming checkpoint location as configured; see `checkpoint_location_of`.
        accept_new_query: Whether to go on with another streaming query than the state came from.
        message_timeout_secs: How long a tuple tree may take, in s.
        max_batch_retries: How often a failed batch is tried again.
        cache_max_entries: Committed entries that a task keeps in memory.
        pending_max_entries: Updated keys that a task holds before it stages a slice.
        blob_bytes: Size that an encoded blob aims at, in bytes.
        buffer_tuples: Most tuples that a task buffers for a stream.
    """

    provider: ProviderSettings = field(default_factory=ProviderSettings)
    key_serializer: str = "msgpack"
    value_serializer: str = "msgpack"
    namespace_prefix: str | None = None
    checkpoint_interval_ms: int = 1000
    checkpoint_location: str | None = None
    accept_new_query: bool = False
    message_timeout_secs: int = 30
    max_batch_retries: int = 3
    cache_max_entries: int = 200_000
    pending_max_entries: int = 100_000
    blob_bytes: int = 1 << 20
    buffer_tuples: int = 16_384

    @property
    def state_directory(self) -> str:
        """SQLite's state directory, absolute."""
        return os.path.abspath(self.provider.directory or os.path.join(DATA_DIRECTORY, "state"))

    def checkpoint_location_of(self, topology: str) -> str:
        """Return a topology's streaming checkpoint location: an absolute path, or a URI as it was configured."""
        location = self.checkpoint_location or os.path.join(DATA_DIRECTORY, topology, "checkpoint")
        path = local_path(location)
        return location if path is None else os.path.abspath(path)

    def namespace_prefix_of(self, topology: str) -> str:
        """Return what stands before the colon in the namespaces of a topology; empty for nothing."""
        return topology if self.namespace_prefix is None else self.namespace_prefix
