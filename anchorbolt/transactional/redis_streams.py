"""Spouts of transactional topologies over Redis streams: a partition is a stream, a batch a range of entry ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.spouts.redis_arguments import connection_of, names, refusal, stream_keys
from anchorbolt.spouts.transactional import (
    BatchSpout,
    OpaquePartitionedEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
)
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.transactional.redis_partitions import (
    OpaqueRedisEmitter,
    RedisCoordinator,
    RedisEmitter,
    StreamEmission,
    StreamPartitions,
)


class _RedisStreamsBatches(BatchSpout):
    """The common part of both spouts."""

    _idempotent: bool

    def __init__(
        self,
        streams: str | Sequence[str],
        fields: Sequence[str],
        *,
        take: int = 1000,
        attempt_field: str = "tx",
        decode: bool = True,
        host: str = "localhost",
        port: int = 6379,
        database: int = 0,
        nodes: Sequence[str] | None = None,
        username: str | None = None,
        password: Secret | str | None = None,
        password_env: str | None = None,
        password_file: str | None = None,
        timeout_ms: int = 2000,
        tls: TlsSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Create a spout. Connects to nothing yet.

        Args:
            streams: Key of the stream, or keys of several: partition 0 is the first one. A missing stream counts as
                empty. In a Redis Cluster the keys may have any slots. Keep the order of the keys from one run to the
                next, and add new keys at the end.
            fields: Names of the entries' fields to emit. They are also the tuples' field names, after the attempt's
                field. If an entry lacks a field, its value is None; other fields of an entry are left out.
            take: The maximum number of entries of a stream in a batch.
            attempt_field: Field name of the attempt, the first value of each tuple.
            decode: Whether values are decoded as UTF-8, or stay bytes. A value that is not UTF-8 always stays bytes.
            host: Name or address of the server; the executors must reach it, too.
            port: Its TCP port.
            database: Number of the database.
            nodes: Some of the servers of a Redis Cluster, each as `host:port`, instead of host and port.
            username: ACL user; None means the default one.
            password: Its password. It is part of the spout's pickle, which is sent to the executors.
            password_env: Instead of `password`, the environment variable that has it. It is read here, on the driver.
            password_file: Instead of `password`, the file that has it. It is read here, on the driver.
            timeout_ms: Time in milliseconds for connecting, and for each read and write of a socket.
            tls: Settings of the encryption: `TlsSettings`, or a mapping with its keys; None means no encryption. The
                files must be on the driver and on all executors.

        Raises:
            TopologyError: `streams`, `fields` or another argument that is not about the connection is invalid.
            ConfigError: An argument about the connection is invalid, or the password cannot be read.
        """
        spout = type(self).__name__
        self.streams = stream_keys(spout, streams)
        self.fields = names(spout, "fields", fields)
        if type(take) is not int or take < 1:
            raise refusal(spout, "take", take, "Pass a whole number, at least 1.")
        if not isinstance(attempt_field, str) or not attempt_field or attempt_field in self.fields:
            raise refusal(spout, "attempt_field", attempt_field, "Pass a name that is not among the fields.")
        if type(decode) is not bool:
            raise refusal(spout, "decode", decode, "Pass True or False.")
        self.take = take
        self.attempt_field = attempt_field
        self.decode = decode
        # Read now: the password's file or variable is on the driver, and executors get only the pickle.
        self._address = connection_of(
            spout,
            host=host,
            port=port,
            database=database,
            nodes=nodes,
            username=username,
            password=password,
            password_env=password_env,
            password_file=password_file,
            timeout_ms=timeout_ms,
            tls=tls,
        ).address()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream: the attempt's field, and the given fields."""
        declarer.declare(self.attempt_field, *self.fields)

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedCoordinator:
        """Return the coordinator, which connects on first use."""
        return RedisCoordinator(self._partitions(conf))

    def _emission(self, conf: Mapping[str, Any]) -> StreamEmission:
        return StreamEmission(self._partitions(conf), self.fields, decode=self.decode, take=self.take)

    def _partitions(self, conf: Mapping[str, Any]) -> StreamPartitions:
        return StreamPartitions(type(self).__name__, self.streams, self._address, conf, idempotent=self._idempotent)


class RedisTransactionalSpout(_RedisStreamsBatches, PartitionedTransactionalSpout):
    """Emits the entries of Redis streams from the start, in batches that are identical in each try.

    A batch has at most `take` entries of each stream. Each try reads the batch again, so its entries must stay in the
    stream until it has committed. If one is missing, the run stops with `StateRegressed`: restore it, or use
    `OpaqueRedisTransactionalSpout`. The run also stops if all ids that a stream ever had are lower than the end of a
    batch, as after the stream was deleted and created again, or an older copy was loaded. Entries that were deleted
    before they were read are left out without notice.

    The spout only reads the streams. Trim them yourself, but keep the entries that are not processed yet.

    While Redis does not answer, coordinator and emitters wait. After `topology.message.timeout.secs` they raise
    `SourceUnavailable`. Needs Redis 5 or later.
    """

    _idempotent = True

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedEmitter:
        """Return the emitter of a task, which connects on first use."""
        return RedisEmitter(self._emission(conf))


class OpaqueRedisTransactionalSpout(_RedisStreamsBatches, OpaquePartitionedTransactionalSpout):
    """Emits the entries of Redis streams from the start, each in exactly one batch that commits.

    A batch has at most `take` entries of each stream. A retried batch is read again from the end of the last committed
    batch, so it may differ: it has entries that were added meanwhile, and lacks entries that were deleted or trimmed.

    A stream that was deleted and created again is read from the id at which the last batch ended. So entries with lower
    ids, as after the server's clock was set back, are never emitted, without notice. To read them, give the topology
    another id.

    The spout only reads the streams. While Redis does not answer, coordinator and emitters wait. After
    `topology.message.timeout.secs` they raise `SourceUnavailable`. Needs Redis 5 or later.
    """

    _idempotent = False

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionedEmitter:
        """Return the emitter of a task, which connects on first use."""
        return OpaqueRedisEmitter(self._emission(conf))
