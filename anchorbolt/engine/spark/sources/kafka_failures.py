"""Explains why Spark got no offsets from Kafka for stream spouts: Kafka is away, or a topic does not exist.

Spark's own error does not name the spout, the servers or the topic.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from anchorbolt.errors import AnchorboltError, SourceUnavailable, TopologyError

_RAISED = re.compile(r"terminated with exception: (?:[\w.]+: )?org\.apache\.kafka\.common\.errors\.(\w+): ([^\n]*)")
_NO_CLIENT = re.compile(r"terminated with exception: (Failed to (?:create new|construct) [Kk]afka[^\n]*)")
_SQL_STATE = re.compile(r" SQLSTATE: \w+$")
_RELATION = "StreamingRelationV2"
_TOPICS = {"subscribe": "topic", "subscribePattern": "topics like", "assign": "partitions"}


_LOSS = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost because they are not available in Kafka any more")

_REASON = re.compile(r"failOnDataLoss[\"'`]? to [\"'`]?false[\"'`]?\.\s*(?:Reason:\s*)?(?P<reason>\S.*)")


@dataclass(frozen=True)
class KafkaSource:
    """The topics and servers that a spout reads."""

    spout: str | None  # None if unknown
    servers: str
    topics: str  # in words, with the option's kind: topic, topics like, partitions

    def __str__(self) -> str:
        return f"{'a spout' if self.spout is None else f'spout {self.spout!r}'} reads {self.topics} at {self.servers}"


def kafka_sources(frame: DataFrame, spouts: Sequence[str]) -> list[KafkaSource]:
    """Return the Kafka sources of a streaming DataFrame, the union of one DataFrame for each stream spout.

    Empty if this version of Spark keeps a source's options elsewhere.
    """
    try:
        plan: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
        leaves = [plan.apply(number) for number in range(plan.length())]
        streams = [leaf for leaf in leaves if leaf.isStreaming()]
        # Each spout has at least one source, so equal numbers mean one source per spout.
        names: Sequence[str | None] = spouts if len(streams) == len(spouts) else [None] * len(streams)
        return [
            _source(name, leaf.extraOptions())
            for name, leaf in zip(names, streams, strict=True)
            if leaf.getClass().getSimpleName() == _RELATION and leaf.sourceName() == "kafka"
        ]
    except (Py4JError, TypeError):  # TypeError: this Spark has no such method
        return []


def _source(spout: str | None, options: Any) -> KafkaSource:
    topics = [f"{words} {options.get(key)!r}" for key, words in _TOPICS.items() if options.containsKey(key)]
    return KafkaSource(spout, options.get("kafka.bootstrap.servers"), " ".join(topics))


def explained_failure(text: str, sources: Callable[[], Sequence[KafkaSource]]) -> AnchorboltError | None:
    """Return the error for a streaming query that ended with this text; None if the text is not about Kafka.

    Calls `sources` only for a text about Kafka.
    """
    raised, no_client = _RAISED.search(text), _NO_CLIENT.search(text)
    kind = raised[1] if raised else ""
    if kind not in ("UnknownTopicOrPartitionException", "TimeoutException") and no_client is None:
        return None
    read = sources()
    spouts = {source.spout for source in read}
    component = spouts.pop() if len(spouts) == 1 else None
    where = "; ".join(map(str, read)) or "see the source of each stream spout"
    reason = _SQL_STATE.sub("", raised[2] if raised else no_client[1] if no_client else "").strip()
    if kind == "TimeoutException":
        return SourceUnavailable(
            f"Kafka did not answer: {where}. See whether its servers run and can be reached from the driver, or "
            f"correct kafka.bootstrap.servers in the spout's source. Kafka's client says: {reason}"
        )
    if no_client is not None:
        return TopologyError(
            f"Kafka cannot be used with the options of the spout's source: {where}. Correct kafka.bootstrap.servers, "
            f"which needs HOST:PORT with hosts that this machine can find, and the other options that start with "
            f"'kafka.'. Spark says: {reason}",
            component=component,
        )
    return TopologyError(
        f"a topic of Kafka does not exist: {where}. Create the topic, or correct its name in the spout's source.",
        component=component,
    )


def explained_loss(text: str, txid: int) -> str | None:
    """Return the message for Spark's error about lost Kafka messages, None for any other; `txid` committed last."""
    if _LOSS.search(text) is None:
        return None
    found = _REASON.search(text)
    reason = f" Spark says: {found['reason'].strip()}" if found else ""
    return (
        "messages of Kafka are gone that were not read yet: they were removed by retention (retention.ms, "
        "retention.bytes), or their topic was deleted and created again. Nothing of the missing messages is in the "
        f"state, which is at txid {txid}. Restore the topic. Or continue without them: start once with the option "
        f"failOnDataLoss=false of the spout's source, as docs/failures/source.md says.{reason}"
    )
