"""A transactional spout over Redis streams, run as the engine runs it: pickled for its emitter, batch after batch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import cloudpickle

from anchorbolt.streams import TopologyContext
from anchorbolt.transactional import OpaqueRedisTransactionalSpout, RedisTransactionalSpout, TransactionAttempt
from tests.servers.redis_server import RedisServer

RedisSpout = RedisTransactionalSpout | OpaqueRedisTransactionalSpout

CONTEXT = TopologyContext("words", "lines", 7, 0, {"lines": (7,)})


class Tuples(list[tuple[Any, ...]]):
    """Stands for `BatchOutputCollector`."""

    def emit(self, values: Sequence[Any], *, anchors: Any = None, stream: str = "default") -> None:
        assert stream == "default"
        self.append(tuple(values))


class Running:
    """The coordinator and an emitter of a spout, and the metadata that the engine would store."""

    def __init__(self, spout: RedisSpout, conf: Mapping[str, Any]) -> None:
        self.coordinator: Any = spout.coordinator(conf, CONTEXT)
        on_executor: RedisSpout = cloudpickle.loads(cloudpickle.dumps(spout))
        self.emitter: Any = on_executor.emitter(conf, CONTEXT)
        self.metadata: dict[int, Any] = {}
        self.txid = 0
        self._attempt_id = 0

    def is_ready(self) -> bool:
        self.coordinator.after(self.metadata or None)
        ready: bool = self.coordinator.is_ready()
        return ready

    def new_batch(self) -> dict[int, list[Any]]:
        """Emit and commit a batch; return the values of each partition, without the attempt."""
        emitted = self.try_batch()
        self.commit()
        return emitted

    def try_batch(self) -> dict[int, list[Any]]:
        """Emit a new batch, after the last one that was committed. Leaves out partitions that emitted nothing."""
        emitted: dict[int, list[Any]] = {}
        self.tried: dict[int, Any] = {}
        for partition in range(self.coordinator.number_of_partitions()):
            tuples, attempt, last = Tuples(), self._attempt(), self.metadata.get(partition)
            self.tried[partition] = self.emitter.emit_partition_batch_new(attempt, tuples, partition, last)
            assert (self.tried[partition] == last) == (not tuples)
            if tuples:
                emitted[partition] = self._values(tuples, attempt)
        return emitted

    def commit(self) -> None:
        self.metadata = {partition: each for partition, each in self.tried.items() if each is not None}
        self.txid += 1

    def again(self, partition: int, metadata: Any) -> list[Any]:
        tuples, attempt = Tuples(), self._attempt()
        self.emitter.emit_partition_batch(attempt, tuples, partition, metadata)
        return self._values(tuples, attempt)

    def close(self) -> None:
        self.coordinator.close()
        self.emitter.close()

    def _attempt(self) -> TransactionAttempt:
        self._attempt_id += 1
        return TransactionAttempt(self.txid + 1, self._attempt_id)

    def _values(self, tuples: Tuples, attempt: TransactionAttempt) -> list[Any]:
        assert {values[0] for values in tuples} <= {attempt}
        return [values[1] if len(values) == 2 else values[1:] for values in tuples]


@contextmanager
def running(spout: RedisSpout, conf: Mapping[str, Any] | None = None) -> Iterator[Running]:
    run = Running(spout, conf or {})
    try:
        yield run
    finally:
        run.close()


def place_of(server: RedisServer) -> dict[str, Any]:
    return {"host": server.host, "port": server.port}
