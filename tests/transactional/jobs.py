"""Bolts and spouts of transactional topologies that note what is called, for the tests of both engines.

They note it in a file below `conf["notes"]`, because on Spark they run in other processes.
"""

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.config import load_conf
from anchorbolt.files import open_folder
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.streams import OutputFieldsDeclarer, Tuple
from anchorbolt.topology import Topology
from anchorbolt.transactional import (
    BaseBatchBolt,
    BaseTransactionalBolt,
    Committer,
    TransactionalTopologyBuilder,
    TransactionalValue,
    update_transactional,
)
from tests.engine.jobs import BasicBolt, Fields

Conf = Mapping[str, Any]


def note(conf: Conf, *words: object) -> None:
    """Append a line to the notes."""
    file = os.open(Path(conf["notes"]) / "calls", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def notes(conf: Conf, *beginning: object) -> list[str]:
    """Return the noted lines that begin with these words, without them."""
    file = Path(conf["notes"]) / "calls"
    prefix = "".join(f"{word} " for word in beginning)
    lines = file.read_text().splitlines() if file.exists() else []
    return [line.removeprefix(prefix) for line in lines if f"{line} ".startswith(prefix)]


def first_times(conf: Conf, name: str, times: int = 1) -> bool:
    """Return True the first times that it is called with this name, over all processes."""
    file = os.open(Path(conf["notes"]) / f"times-{name}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(file, b"x")
        return os.fstat(file).st_size <= times
    finally:
        os.close(file)


def wait_for(condition: Callable[[], bool], timeout: float = 30) -> None:
    """Wait until a condition of another thread or process holds."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


class Database:
    """A store outside of the topology: a table of values with the batch that updated each last."""

    def __init__(self, conf: Conf, name: str) -> None:
        self.path = Path(conf["notes"]) / f"{name}.sqlite"
        with closing(self._open()) as connection, connection:
            connection.execute("create table if not exists entries (key text primary key, value integer, txid integer)")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30)

    def update(self, txid: int, amounts: Mapping[str, int]) -> dict[str, int]:
        """Add the amounts of a batch, once, and return the new values."""
        updated = {}
        with closing(self._open()) as connection, connection:
            for key, amount in amounts.items():
                row = connection.execute("select value, txid from entries where key = ?", (key,)).fetchone()
                stored = None if row is None else TransactionalValue(*row)
                value = update_transactional(stored, txid, lambda old, amount=amount: (old or 0) + amount)  # type: ignore[misc]
                connection.execute("replace into entries values (?, ?, ?)", (key, value.value, value.txid))
                updated[key] = value.value
        return updated

    def values(self) -> dict[str, int]:
        with closing(self._open()) as connection:
            return dict(connection.execute("select key, value from entries"))


class Noting:
    """Notes the calls of a bolt's hooks: the txid, the component, and the hook with the tuple's last value."""

    streams: tuple[str, ...] = ("tx", "value")
    raises: tuple[str, int, int, Callable[[], BaseException]] | None = None  # hook, txid, times, exception

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.conf, self.component, self.collector, self.attempt = conf, context.this_component_id, collector, id
        self.called("prepare")

    def called(self, hook: str, *values: object) -> None:
        txid = self.attempt.txid
        note(self.conf, "attempt", txid, self.attempt.attempt_id)
        note(self.conf, "call", txid, self.component, hook, *values)
        if self.raises is not None:
            wanted, at, times, make = self.raises
            if (wanted, at) == (hook, txid) and first_times(self.conf, f"{self.component}-{hook}", times):
                raise make()

    def execute(self, tup: Tuple) -> None:
        self.called("execute", tup[1])

    def finish_batch(self) -> None:
        self.called("finish_batch")

    def cleanup(self) -> None:
        self.called("cleanup")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*self.streams)


class Passing(Noting, BaseBatchBolt):
    """Emits each value with its name behind it, and its name at the end of the batch."""

    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        self.collector.emit((self.attempt, f"{tup[1]}{self.component}"))

    def finish_batch(self) -> None:
        super().finish_batch()
        self.collector.emit((self.attempt, self.component))


class PassingCommitter(Passing, Committer):
    """The same as a committer."""


class PassingBasic(BasicBolt):
    """Passes values on; notes them; fails as told."""

    fields = ("tx", "value")

    raises: tuple[int, int, Callable[[], BaseException]] | None = None  # txid, times, exception

    def prepare(self, conf: Any, context: Any) -> None:
        self.conf, self.component = conf, context.this_component_id

    def execute(self, tup: Tuple, collector: Any) -> None:
        note(self.conf, "call", tup[0].txid, self.component, "execute", tup[1])
        note(self.conf, "attempt", tup[0].txid, tup[0].attempt_id)
        if self.raises is not None:
            txid, times, make = self.raises
            if txid == tup[0].txid and first_times(self.conf, self.component, times):
                raise make()
        collector.emit((tup[0], tup[1]))


class Values(Noting, BaseTransactionalBolt, Committer):
    """Notes in its commit phase the values of each batch, in the order in which they came."""

    streams = ("tx",)

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.values: list[Any] = []
        super().prepare(conf, context, collector, id)

    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        self.values.append(tup[1])

    def finish_batch(self) -> None:
        super().finish_batch()
        note(self.conf, "batch", self.attempt.txid, *self.values)


def batches(conf: Conf) -> dict[int, list[int]]:
    """Return the numbers that `Values` noted last for each batch, sorted."""
    found = (line.split() for line in notes(conf, "batch"))
    return {int(txid): sorted(map(int, values)) for txid, *values in found}


def calls(conf: Conf, txid: int) -> list[str]:
    """Return the noted calls of a batch, without `prepare` and `cleanup`."""
    return [line for line in notes(conf, "call", txid) if not line.endswith(("prepare", "cleanup"))]


def attempts(conf: Conf, txid: int) -> list[int]:
    """Return the ids of the attempts at a batch, in the order in which they were seen first."""
    return list(dict.fromkeys(map(int, notes(conf, "attempt", txid))))


def values_topology(spout: Any, bolt: Any = None, name: str = "values", parallelism: int = 1) -> Topology:
    """The spout, and `Values` or another bolt behind it."""
    builder = TransactionalTopologyBuilder(name, "spout", spout, parallelism)
    builder.set_bolt("values", bolt or Values()).global_grouping("spout")
    return builder.build_topology()


class CountBatch(Fields, BaseBatchBolt):
    """Storm's BatchCount: emits how many tuples its task got of the batch."""

    fields = ("id", "count")

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.collector, self.id, self.count = collector, id, 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit((self.id, self.count))


class UpdateCounts(Fields, BaseTransactionalBolt, Committer):
    """Adds what a batch has of each key to a database, and emits the new values of those keys."""

    fields = ("tx", "key", "value", "before")

    def __init__(self, database: str, keys: Callable[[Tuple], tuple[str, int]]) -> None:
        self.database, self.keys = database, keys

    def prepare(self, conf: Any, context: Any, collector: Any, id: Any) -> None:
        self.conf, self.collector, self.attempt = conf, collector, id
        self.amounts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        key, amount = self.keys(tup)
        self.amounts[key] += amount

    def finish_batch(self) -> None:
        updated = Database(self.conf, self.database).update(self.attempt.txid, self.amounts)
        if first_times(self.conf, f"{self.database}-after"):
            raise OSError("after the store was updated")
        for key, value in updated.items():
            self.collector.emit((self.attempt, key, value, value - self.amounts[key]))


@contextmanager
def decision_log(conf: Conf, topology: str) -> Iterator[DecisionLog]:
    """Read what is stored for a topology."""
    settings = load_conf({key: value for key, value in conf.items() if key != "notes"}).settings
    provider = provider_from(settings, shared_by_processes=True, shared_by_machines=False)
    folder = open_folder(conf["topology.checkpoint.location"])
    with closing(DecisionLog(provider.open(record_namespace(settings.namespace_prefix_of(topology))), folder)) as log:
        yield log


def rows(numbers: Sequence[int]) -> list[tuple[int]]:
    return [(number,) for number in numbers]


def boom() -> BaseException:
    return ValueError("boom")
