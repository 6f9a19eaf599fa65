"""The job that is killed: `anchorbolt run tests.crash.transactional.job:topology`, with a folder `in` where it runs.

Words of two partitions, counted by an early batch bolt; a stateful committer adds the counts to its state; another
committer adds the number of words to a store outside, by the rule of `TransactionalValue`; a bolt below the stateful
one feeds a Parquet sink. In `chained` some of the bolts are chained.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from anchorbolt.bolts import BaseStatefulBolt, ParquetSink
from anchorbolt.topology import Topology
from anchorbolt.transactional import (
    BaseBatchBolt,
    BaseTransactionalBolt,
    Committer,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionalValue,
    update_transactional,
)
from tests.engine.jobs import BasicBolt, Fields

NAME = "batches"
PARTITIONS = TASKS = 2
LARGE = 12_000
"""Words of a large batch: each task's updates take more than one slice in every store."""

_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class Words(Fields, PartitionedTransactionalSpout):
    """The words of files `in/0` and `in/1`: a JSON list of a list of words for each batch."""

    fields = ("tx", "word")

    def coordinator(self, conf: Any, context: Any) -> PartitionedCoordinator:
        return _Coordinator()

    def emitter(self, conf: Any, context: Any) -> PartitionedEmitter:
        return _Emitter(Path("in").absolute())

    def __reduce__(self) -> Any:
        return Words, ()


class _Coordinator(PartitionedCoordinator):
    def __init__(self) -> None:
        self._batches = len(json.loads(Path("in/0").read_text()))
        self._begun = 0

    def after(self, last_metadata: Any) -> None:
        self._begun = 0 if last_metadata is None else last_metadata[0]

    def is_ready(self) -> bool:
        return self._begun < self._batches

    def number_of_partitions(self) -> int:
        return PARTITIONS


class _Emitter(PartitionedEmitter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def emit_partition_batch_new(self, attempt: Any, collector: Any, partition: int, last_metadata: Any) -> Any:
        number = (last_metadata or 0) + 1
        self.emit_partition_batch(attempt, collector, partition, number)
        return number

    def emit_partition_batch(self, attempt: Any, collector: Any, partition: int, metadata: Any) -> None:
        for word in json.loads((self._folder / str(partition)).read_text())[metadata - 1]:
            collector.emit((attempt, word))


class PartialCount(Fields, BaseBatchBolt):
    fields = ("tx", "word", "count")

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self._collector, self._id, self._counts = collector, id, Counter[str]()

    def execute(self, tup: Any) -> None:
        self._counts[tup["word"]] += 1

    def finish_batch(self) -> None:
        for word, count in sorted(self._counts.items()):
            self._collector.emit((self._id, word, count))


class CountWords(Fields, BaseStatefulBolt[Any], Committer):
    """Adds partial counts to its state, and emits the sums at the end of the batch."""

    fields = ("tx", "word", "count")

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self._collector = collector

    def init_state(self, state: Any) -> None:
        self._state = state
        self._changed: dict[str, int] = {}
        self._attempt: Any = None

    def execute(self, tup: Any) -> None:
        if self._attempt != tup[0]:
            self._attempt, self._changed = tup[0], {}
        count = self._state.get(tup["word"], 0) + tup["count"]
        self._state.put(tup["word"], count)
        self._changed[tup["word"]] = count

    def finish_batch(self) -> None:
        for word, count in sorted(self._changed.items()):
            self._collector.emit((self._attempt, word, count))
        self._changed = {}


class GlobalCount(BaseTransactionalBolt, Committer):
    """Adds the number of the batch's words to a value in a file outside."""

    def __init__(self, file: str) -> None:
        self._file = file

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self._id, self._words = id, 0

    def execute(self, tup: Any) -> None:
        self._words += tup["count"]

    def finish_batch(self) -> None:
        with closing(sqlite3.connect(self._file, timeout=60)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS count (value INTEGER, txid INTEGER)")
            row = database.execute("SELECT value, txid FROM count").fetchone()
            stored = None if row is None else TransactionalValue(*row)
            new = update_transactional(stored, self._id.txid, lambda value: (value or 0) + self._words)
            database.execute("DELETE FROM count")
            database.execute("INSERT INTO count VALUES (?, ?)", (new.value, new.txid))


class Pass(BasicBolt):
    fields: tuple[str, ...] = ("tx", "word", "count")

    def __init__(self, *fields: str) -> None:
        self.fields = fields or self.fields

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


def topology(conf: Mapping[str, Any]) -> Topology:
    """Return the job's topology; its folders are in the current directory."""
    builder = TransactionalTopologyBuilder(NAME, "words", Words(), parallelism=PARTITIONS)
    builder.set_bolt("partial", PartialCount(), TASKS).shuffle_grouping("words")
    builder.set_bolt("count", CountWords(), TASKS).fields_grouping("partial", "word")
    builder.set_bolt("global", GlobalCount(str(Path("global.db").absolute()))).global_grouping("partial")
    builder.set_bolt("below", Pass(), TASKS).shuffle_grouping("count")
    builder.set_bolt("out", ParquetSink("out"), TASKS).fields_grouping("below", "word")
    return builder.build_topology()


def chained(conf: Mapping[str, Any]) -> Topology:
    """Return the same topology with a chain in each phase."""
    builder = TransactionalTopologyBuilder(NAME, "words", Words(), parallelism=PARTITIONS)
    builder.set_bolt("pass", Pass("tx", "word"), TASKS).shuffle_grouping("words")
    builder.set_bolt("partial", PartialCount(), TASKS).none_grouping("pass")
    builder.set_bolt("count", CountWords(), TASKS).fields_grouping("partial", "word")
    builder.set_bolt("global", GlobalCount(str(Path("global.db").absolute()))).global_grouping("partial")
    builder.set_bolt("below", Pass(), TASKS).none_grouping("count")
    builder.set_bolt("out", ParquetSink("out"), TASKS).local_or_shuffle_grouping("below")
    return builder.build_topology()


def write_batches(folder: Path, batches: int, large: int | None = None) -> list[list[str]]:
    """Write the input of so many batches below `folder`, one of them large, and return the words of each."""
    parts: list[list[list[str]]] = [[] for _ in range(PARTITIONS)]
    for batch in range(1, batches + 1):
        words = [_WORDS[(batch * 3 + number * 5) % len(_WORDS)] for number in range(12 + batch % 5)]
        if batch == large:
            words += [f"word{number}" for number in range(LARGE)]
        for partition, part in enumerate(parts):
            part.append(words[partition::PARTITIONS])
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for partition, part in enumerate(parts):
        (folder / "in" / str(partition)).write_text(json.dumps(part))
    return [[word for part in parts for word in part[batch]] for batch in range(batches)]
