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
    """What both spouts have in common."""

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
            streams: Key of the stream, or keys of several: partition 0 is the first one. A stream that is missing is
                empty. In a Redis Cluster the keys may have any slots. Keep the order of the keys from one run to the
                next, and add new keys at the end.
            fields: Names of the entries' fields to emit, which are the field names of the tuples after the attempt's. A
                field that an entry lacks is None; other fields of an entry are left out.
            take: How many entries of a stream a batch has at most.
            attempt_field: Field name of the attempt, the first value of each tuple.
            decode: Whether values are decoded as UTF-8, or stay bytes. A value that is not UTF-8 always stays bytes.
            host: Name or address of the server, as the executors reach it too.
            port: Its TCP port.
            database: Number of the database.
            nodes: Some of the servers of a Redis Cluster, each as `host:port`, instead of host and port.
            username: ACL user; None means the default one.
            password: Its password. It is part of the spout's pickle, which is sent to the executors.
            password_env: Instead of `password`, the environment variable that has it. It is read here, on the driver.
            password_file: Instead of `password`, the file that has it. It is read here, on the driver.
            timeout_ms: Time in milliseconds for connecting, and for each read and write of a socket.
            tls: How to encrypt; None means not at all. A mapping with the keys of `TlsSettings` is taken as such. The
                files must be on the driver and on all executors.

        Raises:
            TopologyError: Streams, fields or another argument that is not about the connection is not such a value.
            ConfigError: An argument about the connection is not such a value, or the password cannot be read.
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
        # Read now: the place of the password is on the driver, and executors get only the pickle.
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
    """Emits the entries of Redis streams, from their first, in batches that are identical in each try.

    A batch has at most `take` entries of each stream. It is read again when it is tried again, so its entries must stay
    in the stream until it has committed. If one is missing, the run stops with `StateRegressed`: restore it, or use
    `OpaqueRedisTransactionalSpout`. It also stops if a stream has only had lower ids than a batch ended with, as when
    the stream was deleted and made again, or an older copy of it was loaded. Entries that were deleted before they were
    read are left out unnoticed.

    The streams are only read. Trim them by yourself, with room for what is not processed yet.

    While Redis does not answer, coordinator and emitters wait. After `topology.message.timeout.secs` they raise
    `SourceUnavailable`. Needs Redis 5 or later.
    """

    _idempotent = True

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionedEmitter:
        """Return the emitter of a task, which connects on first use."""
        return RedisEmitter(self._emission(conf))


class OpaqueRedisTransactionalSpout(_RedisStreamsBatches, OpaquePartitionedTransactionalSpout):
    """Emits the entries of Redis streams, from their first, each in exactly one batch that commits.

    A batch has at most `take` entries of each stream. A batch that is tried again has what then follows the last batch
    that committed: entries that were added meanwhile too, and not those that were deleted or trimmed.

    A stream that was deleted and made again is read from the id on that the last batch ended with. So entries with
    lower ids, as after the clock of the server was set back, are never emitted, and nothing says so. To read them, give
    the topology another id.

    The streams are only read. While Redis does not answer, coordinator and emitters wait. After
    `topology.message.timeout.secs` they raise `SourceUnavailable`. Needs Redis 5 or later.
    """

    _idempotent = False

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionedEmitter:
        """Return the emitter of a task, which connects on first use."""
        return OpaqueRedisEmitter(self._emission(conf))
