"""Spouts of transactional topologies that note what is called: one of whole batches, and one of partitions."""

from pathlib import Path
from typing import Any

from anchorbolt.transactional import (
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionalCoordinator,
    TransactionalEmitter,
    TransactionalSpout,
)
from tests.engine.jobs import Fields
from tests.transactional.jobs import Conf, note


class Ranges(Fields, TransactionalSpout):
    """Batches of numbers: the metadata is the first number behind the batch; the first batch begins at `first`."""

    fields = ("tx", "number")

    def __init__(self, take: int, end: int, *, first: int = 0) -> None:
        self.take, self.end, self.first = take, end, first

    def coordinator(self, conf: Any, context: Any) -> TransactionalCoordinator:
        return RangesCoordinator(conf, self)

    def emitter(self, conf: Any, context: Any) -> TransactionalEmitter:
        return RangesEmitter(conf, context, self)


class RangesCoordinator(TransactionalCoordinator):
    def __init__(self, conf: Conf, spout: Ranges) -> None:
        self.conf, self.spout, self.last = conf, spout, None

    def after(self, last_metadata: Any) -> None:
        self.last = last_metadata
        note(self.conf, "after", last_metadata)

    def is_ready(self) -> bool:
        return (self.spout.first if self.last is None else self.last) < self.spout.end

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> Any:
        note(self.conf, "initialize", txid, previous_metadata)
        return (self.spout.first if previous_metadata is None else previous_metadata) + self.spout.take

    def close(self) -> None:
        note(self.conf, "closed coordinator")


class RangesEmitter(TransactionalEmitter):
    def __init__(self, conf: Conf, context: Any, spout: Ranges) -> None:
        self.conf, self.spout, self.task = conf, spout, context.this_task_index
        self.tasks = len(context.get_component_tasks(context.this_component_id))
        note(self.conf, "opened emitter", self.task)

    def emit_batch(self, attempt: Any, metadata: Any, collector: Any) -> None:
        note(self.conf, "emit", attempt.txid, self.task, metadata)
        for number in range(metadata - self.spout.take, metadata):
            if number % self.tasks == self.task:
                collector.emit((attempt, number))

    def cleanup_before(self, txid: int) -> None:
        note(self.conf, "cleanup", txid, self.task)

    def close(self) -> None:
        note(self.conf, "closed emitter", self.task)


class Pages(Fields, PartitionedTransactionalSpout):
    """Emits the numbers of the file `source` in the notes, which may grow: as many as there are, up to `take`."""

    fields = ("tx", "number")

    def __init__(self, take: int = 10, partitions: Any = 1, emitter: type[PartitionedEmitter] | None = None) -> None:
        self.take, self.partitions, self.kind = take, partitions, emitter or PagesEmitter

    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return PagesCoordinator(conf, self)

    def emitter(self, conf: Any, context: Any) -> PartitionedEmitter:
        made: Any = self.kind
        emitter: PartitionedEmitter = made(conf, self)
        return emitter


def numbers_of(conf: Conf) -> int:
    """Return how many numbers the source of `Pages` has."""
    return int((Path(conf["notes"]) / "source").read_text())


def set_numbers(conf: Conf, number: int) -> None:
    (Path(conf["notes"]) / "source").write_text(str(number))


class PagesCoordinator(PartitionedCoordinator):
    def __init__(self, conf: Conf, spout: Pages) -> None:
        self.conf, self.spout, self.last = conf, spout, 0

    def after(self, last_metadata: Any) -> None:
        self.last = (last_metadata or {}).get(0, [0, 0])[1]

    def is_ready(self) -> bool:
        return self.last < numbers_of(self.conf)

    def number_of_partitions(self) -> int:
        number: int = self.spout.partitions
        return number


class PagesEmitter(PartitionedEmitter):
    def __init__(self, conf: Conf, spout: Pages) -> None:
        self.conf, self.spout = conf, spout

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> Any:
        first = last_metadata[1] if last_metadata else 0
        end = min(first + self.spout.take, numbers_of(self.conf))
        note(self.conf, "new", attempt.txid, first, end)
        self.emit(attempt, collector, first, end)
        return [first, end]

    def emit_partition_batch(self, attempt: Any, collector: Any, partition: int, metadata: Any) -> None:
        note(self.conf, "again", attempt.txid, *metadata)
        self.emit(attempt, collector, *metadata)

    def emit(self, attempt: Any, collector: Any, first: int, end: int) -> None:
        for number in range(first, end):
            collector.emit((attempt, number))
