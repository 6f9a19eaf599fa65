"""A reliable spout over Redis streams. It takes the role of Kestrel in Storm's documentation.

Which entries may be delivered twice, and to which task:

- A consumer group hands each entry to one consumer, and keeps it as pending until it is acked. Each task is a consumer
  with the same name in every run, so a starting task first reads the entries that it held before.
- A task knows its siblings by the names of the consumers, and never claims from them: their entries may wait for a wave
  for any time. `XAUTOCLAIM` claims from all consumers, so a task uses other commands: `XINFO CONSUMERS`, then
  `XPENDING` and `XCLAIM` for consumers that are not siblings.
- Redis decides who owns an entry. A failed entry is claimed again and so read again.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.errors import SourceUnavailable
from anchorbolt.spouts.base import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.spouts.redis_arguments import connection_of, names, refusal, stream_keys, values_of
from anchorbolt.spouts.redis_reader import StreamReader, Task
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.streams import Entry, StreamConsumer, connected
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.util.retry import Backoff, RetryPolicy

_NAME = "RedisStreamsSpout"
_TIMEOUTS_UNTIL_CLAIM = 4
_MOST_ACKS = 10_000


class RedisStreamsSpout(BaseRichSpout):
    """Emits the entries of one Redis stream or several, on the default stream, as a consumer group.

    The tasks of the spout share the entries. An entry is pending in Redis until its effects are committed. A failed
    entry is emitted again. A starting task first takes the entries that it held when its driver was killed, and the
    entries of tasks that no longer exist. It takes the entries of all other consumers after `claim_after_s`.

    A message's id is the entry's id, such as `1526919030474-55`. With several streams the stream's key precedes it, as
    in `orders:1526919030474-55`: let a topology finish all messages before you change from one stream to several. Ids
    are stable, so the state is exactly-once if Redis keeps every write that it has confirmed (`appendonly yes` and
    `appendfsync always`). A Redis that loses acks in a crash delivers their entries again.

    While Redis does not answer, the spout emits nothing, and keeps the acks. After `topology.message.timeout.secs` the
    run stops with `SourceUnavailable`. Needs Redis 5 or later, and a group that only one topology uses.
    """

    stable_message_ids = True

    def __init__(
        self,
        streams: str | Sequence[str],
        fields: Sequence[str],
        *,
        group: str | None = None,
        from_start: bool = True,
        decode: bool = True,
        batch: int = 1000,
        claim_after_s: float | None = None,
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
            streams: Key of the stream, or keys of several. A missing stream is created. In a Redis Cluster the keys may
                be in any slots.
            fields: Names of the entries' fields to emit, which are also the field names of the tuples. A field that an
                entry lacks is None; other fields of an entry are ignored.
            group: Name of the consumer group, created if it is missing. None means `TOPOLOGY:COMPONENT`.
            from_start: Whether a new group reads the streams from their first entry, instead of only entries added
                after its creation.
            decode: Whether values are decoded as UTF-8, or stay bytes. A value that is not UTF-8 always stays bytes.
            batch: Number of entries per read.
            claim_after_s: Seconds after which an entry is taken from a consumer that is not a task of this spout. None
                means 4 times `topology.message.timeout.secs`: an entry may be pending for longer than the time-out,
                because its wait for a wave does not count.
            host: Name or address of the server.
            port: Its TCP port.
            database: Number of the database.
            nodes: Some of the servers of a Redis Cluster, each as `host:port`, instead of host and port.
            username: ACL user; None means the default user.
            password: Its password. It is part of the spout's pickle, which leaves the driver only if
                `topology.spouts.in` is `workers`.
            password_env: Instead of `password`, the name of an environment variable where the spout runs.
            password_file: Instead of `password`, the path of a file where the spout runs.
            timeout_ms: Time in milliseconds for connecting, and for each read and write of a socket.
            tls: Encryption settings; None means no encryption. May be a mapping with the keys of `TlsSettings`.

        Raises:
            TopologyError: An argument that is not about the connection, such as the streams or fields, is invalid.
            ConfigError: An argument about the connection is invalid.
        """
        self.streams = stream_keys(_NAME, streams)
        self.fields = names(_NAME, "fields", fields)
        if group is not None and (not isinstance(group, str) or not group):
            raise refusal(_NAME, "group", group, "Pass a name, or None.")
        for name, flag in (("from_start", from_start), ("decode", decode)):
            if type(flag) is not bool:
                raise refusal(_NAME, name, flag, "Pass True or False.")
        if type(batch) is not int or batch < 1:
            raise refusal(_NAME, "batch", batch, "Pass a whole number, at least 1.")
        if claim_after_s is not None and not (type(claim_after_s) in (int, float) and claim_after_s > 0):
            raise refusal(_NAME, "claim_after_s", claim_after_s, "Pass a number of seconds greater than 0, or None.")
        self._client: RedisClient | None = None
        self.group = group
        self.from_start = from_start
        self.decode = decode
        self.batch = batch
        self.claim_after_s = claim_after_s
        self._connection = connection_of(
            _NAME,
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
        )

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream with the given fields."""
        declarer.declare(*self.fields)

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """Connect, and create the group in streams that lack it.

        Raises:
            SourceUnavailable: Redis does not answer within the time-out of messages.
            ConfigError: The login was refused, a key is not a stream, or the password cannot be read.
        """
        timeout_s = int(conf.get("topology.message.timeout.secs") or 30)
        component = context.this_component_id
        task = Task(
            f"{context.topology}:{component}-", context.this_task_index, len(context.get_component_tasks(component))
        )
        self._emit = collector.emit
        self._most: int | None = conf.get("topology.max.spout.pending")
        self._pending = 0  # entries emitted, but neither acked nor failed
        self._retry = RetryPolicy(timeout_s * 1000)
        self._values = values_of([name.encode() for name in self.fields], self.decode)
        address = self._connection.address()
        group = self.group if self.group is not None else f"{context.topology}:{component}"
        idle_s = self.claim_after_s if self.claim_after_s is not None else timeout_s * _TIMEOUTS_UNTIL_CLAIM
        client = self._client = connected(address)
        self._sources: dict[str, _Source] = {}
        for key in self.streams:
            consumer = StreamConsumer(client, key, group, task.consumer)
            self._retry.until_available(partial(consumer.join, from_start=self.from_start))
            prefix = f"{key}:" if len(self.streams) > 1 else ""
            self._sources[prefix] = _Source(prefix, StreamReader(consumer, task, idle_s, time.monotonic))
        self._turns = deque(self._sources.values())

    def next_tuple(self) -> None:
        """Emit the next entries of one stream: at most `batch`, within `topology.max.spout.pending`.

        Raises:
            SourceUnavailable: Redis has not answered for the time-out of messages.
            StateError: The consumer group was removed during the run.
        """
        room = self.batch if self._most is None else min(self.batch, self._most - self._pending)
        if room < 1:
            return
        for _ in range(len(self._turns)):
            source = self._turns[0]
            self._turns.rotate(-1)
            entries = self._read(source, room)
            if entries:
                self._pending += len(entries)
                emit, values, prefix = self._emit, self._values, source.prefix
                for id, fields in entries:
                    emit(values(fields), prefix + id)
                return

    def ack(self, msg_id: str) -> None:
        """Keep the ack for `flush_acks`; send the acks early if there are many."""
        self._pending -= 1
        source, id = self._source_of(msg_id)
        source.reader.ack(id)
        if source.reader.unsent >= _MOST_ACKS:
            self.flush_acks()

    def fail(self, msg_id: str) -> None:
        """Emit the entry again from this task. If the entry was deleted meanwhile, it is acked and logged."""
        self._pending -= 1
        source, id = self._source_of(msg_id)
        source.reader.fail(id)

    def recall(self, msg_id: str) -> None:
        """Forget an entry that another task has claimed, after a consumer of another program took it from this task."""
        self._pending -= 1
        source, id = self._source_of(msg_id)
        source.reader.release(id)

    def flush_acks(self) -> None:
        """Send all acks; wait while Redis does not answer.

        Raises:
            SourceUnavailable: Redis has not answered for the time-out of messages. The acks are kept.
        """
        self._retry.until_available(self._flush)

    def ack_again(self, msg_ids: Sequence[str]) -> bool:
        """Ack entries that earlier runs have processed. Redis ignores acks that it already has.

        Raises:
            SourceUnavailable: Redis has not answered for the time-out of messages.
        """
        are_known = True
        for msg_id in msg_ids:
            key, colon, id = msg_id.rpartition(":")
            source = self._sources.get(key + colon)
            if source is None:  # the spout no longer reads this stream
                are_known = False
            else:
                source.reader.ack(id)
        self.flush_acks()
        return are_known

    def close(self) -> None:
        """Close the connections, if there are any. Entries without an ack stay pending in Redis, for the next run."""
        client, self._client = self._client, None
        if client is not None:
            client.release()

    def _source_of(self, msg_id: str) -> tuple[_Source, str]:
        key, colon, id = msg_id.rpartition(":")
        return self._sources[key + colon], id

    def _flush(self) -> None:
        unavailable = None
        for source in self._turns:
            try:
                source.reader.flush()
            except SourceUnavailable as error:  # in a cluster, other servers may answer
                unavailable = error
        if unavailable is not None:
            raise unavailable

    def _read(self, source: _Source, room: int) -> list[Entry]:
        """Read entries. If Redis does not answer, return soon and ask it again in a later call."""
        if time.monotonic() < source.retry_at:
            return []
        try:
            entries = source.reader.next_entries(room)
        except SourceUnavailable as error:
            source.reader.reread()
            source.backoff = source.backoff or Backoff(self._retry)
            pause_s = source.backoff.pause_or_give_up(error)
            if pause_s is None:
                raise
            self.source_is_away = True
            source.retry_at = time.monotonic() + pause_s
            return []
        if source.backoff is not None:
            source.backoff.end()
            source.backoff = None
            self.source_is_away = any(each.backoff is not None for each in self._turns)
        return entries


@dataclasses.dataclass
class _Source:
    """One of the streams, and when to ask its server again while it does not answer."""

    prefix: str  # of message ids
    reader: StreamReader
    backoff: Backoff | None = None  # while its server does not answer
    retry_at: float = 0.0
