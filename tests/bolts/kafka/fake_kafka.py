"""A Kafka in memory with one producer, one topic and one marker; and the drivers that send to it."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anchorbolt.bolts import KafkaSink
from anchorbolt.bolts.kafka.marker import Marker, Patience
from anchorbolt.bolts.kafka.messages import Message
from anchorbolt.bolts.kafka.publisher import Publisher
from anchorbolt.bolts.sink import SinkFile, SinkRun
from anchorbolt.errors import Fenced, SinkUnavailable
from anchorbolt.files import Folder, open_folder
from anchorbolt.util.retry import RetryPolicy


class FakeKafka:
    """What Kafka keeps. `actions` holds, for each step, what happens the next times that a connection reaches it.

    The steps of a connection: "init", "read", "send", "commit" and "committed".
    """

    def __init__(self, marker: Marker | None = None) -> None:
        self.marker = marker
        self.sent: list[str] = []
        self.owner: object = None  # the connection that fenced off the others
        self.actions: dict[str, list[Callable[[], object]]] = {}

    def at(self, step: str, *actions: Callable[[], object]) -> None:
        self.actions.setdefault(step, []).extend(actions)

    def expire(self) -> None:
        """Forget the marker and the producer, as after a week without a transaction."""
        self.marker = self.owner = None

    def reach(self, step: str) -> None:
        actions = self.actions.get(step)
        if actions:
            actions.pop(0)()


class FakeConnection:
    """A `KafkaConnection` to a `FakeKafka`."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka

    def open(self, wait: Patience) -> Marker | None:
        self._kafka.reach("init")
        self._kafka.owner = self
        self._kafka.reach("read")
        return self._kafka.marker

    def send(
        self, messages: Iterable[Message], marker: Marker, wait: Patience, *, before_commit: Callable[[], None]
    ) -> None:
        values = [(message.value or b"").decode() for message in messages]
        if values:
            wait.advanced(len(values))
        self._kafka.reach("send")
        self._check_owner()
        before_commit()
        self._kafka.reach("commit")
        self._check_owner()
        self._kafka.marker = marker
        self._kafka.sent += values
        self._kafka.reach("committed")

    def close(self) -> None:
        pass

    def _check_owner(self) -> None:
        if self._kafka.owner is not self:
            raise SinkUnavailable("another producer")


class Driver(Publisher):
    """A driver's sink, whose run has begun unless it shall not. Waits up to `patience_s` for Kafka."""

    def __init__(
        self,
        kafka: FakeKafka,
        *,
        txid: int = 0,
        pending: Sequence[SinkFile] = (),
        patience_s: float = 0.5,
        begins: bool = True,
        open_at: Callable[[str], Folder] = open_folder,
    ) -> None:
        self.kafka = kafka
        self.is_overtaken = False
        run = SinkRun("t", "out", txid, pending, self._check_claim, RetryPolicy(patience_s * 1000))
        super().__init__(
            run, servers="kafka:9092", identity="t:out", topic="topic", settings={}, lost_marker="stop", open_at=open_at
        )
        if begins:
            self.begin()

    def overtake(self) -> None:
        self.is_overtaken = True

    def _check_claim(self) -> None:
        if self.is_overtaken:
            raise Fenced("a newer driver has claimed the topology")

    def _new_connection(self) -> Any:
        return FakeConnection(self.kafka)


def fail(error: Exception | None = None) -> Callable[[], object]:
    """Return an action that raises."""

    def act() -> None:
        raise error or SinkUnavailable("Kafka does not answer")

    return act


def decided(folder: Path, *values: str, servers: str = "kafka:9092", topic: str = "topic") -> list[SinkFile]:
    """Return the files of a decided wave with these messages: one, in the outbox."""
    sink = KafkaSink(servers, topic, value="word")
    _, columns = sink.outbox_columns(("word",), [list(values)])
    path = folder / "out-0.parquet"
    schema: Any = sink.schema
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
    return [SinkFile("out", 0, str(path), len(values), b"")]
