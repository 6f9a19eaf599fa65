"""Divides the state of stateful bolts among another number of tasks, in one more transaction of the topology.

Each key goes to the task to which its grouping sends it: its entry with its due time, and its timers. Entries that
leave a task are deleted there in the same transaction. The index by time of a task that gets entries is extended; items
of entries that have left count no more, and are dropped when they are due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord, Winner
from anchorbolt.errors import MigrationRefused, SerializationError, StateCorrupted
from anchorbolt.maintenance.key_placement import KEY_FUNCTIONS, KeyFunction, Survey, tasks_of
from anchorbolt.maintenance.namespace_changes import NamespaceChanges, stage_if_many
from anchorbolt.maintenance.one_transaction import OneTransaction
from anchorbolt.serialization.codecs import INDEX_TAG, Codec
from anchorbolt.state_backends.contract import START_OVER, NamespaceHead, StateStorage
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.timed.expiry import indexed_at, joined, split
from anchorbolt.state_backends.timed.index import IndexClock
from anchorbolt.state_backends.timed.timers import timer_indexed_anew, timer_key
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.util.messages import did_you_mean
from anchorbolt.util.progress import Progress

GROUPED_BY_KEY = "fields("
"""How the text of a grouping begins that sends equal keys to one task."""

CodecOf = Callable[[str, str], Codec]
"""Returns the codec of the keys of a namespace, by the namespace and its format header."""


@dataclass(frozen=True)
class Rescaled:
    """The change of one bolt.

    Attributes:
        component: Id of the bolt.
        before: Its number of tasks.
        after: Its new number of tasks.
        entries: Its entries and timers.
        moving: How many of them go to another task.
        key_function: The name of the function that returns the grouping value of a key.
    """

    component: str
    before: int
    after: int
    entries: int
    moving: int
    key_function: str


class Rescaling:
    """Changes the numbers of tasks of some bolts: `survey` first, which only reads, then `move`."""

    def __init__(
        self,
        record: DecisionRecord,
        prefix: str,
        parallelism: Mapping[str, int],
        codec_of: CodecOf,
        key_functions: Mapping[str, KeyFunction] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Check what the record shows: whether the bolts can be rescaled.

        Args:
            record: The topology's last decision.
            prefix: Prefix of its namespaces, without the colon; may be empty.
            parallelism: The new number of tasks by bolt.
            codec_of: Returns the codec of a namespace's keys.
            key_functions: Functions that return the grouping value of a key, by name. One of them must agree with all
                keys; by default the key itself and its first item are tried.
            progress: Receives the progress.

        Raises:
            MigrationRefused: A bolt has no state, is not grouped by fields, or gets fewer than one task; or a batch of
                a transactional topology may be half committed.
        """
        self._record = record
        self._prefix = prefix
        self._codec_of = codec_of
        self._functions = KEY_FUNCTIONS if key_functions is None else key_functions
        self._progress = progress or Progress()
        self._chosen: dict[str, KeyFunction] = {}
        self.bolts = {name: tasks for name, tasks in parallelism.items() if record.parallelism.get(name) != tasks}
        for component, tasks in self.bolts.items():
            self._check(component, tasks)
        if self.bolts and record.committers:
            raise MigrationRefused(
                f"batch {record.txid + 1} of {record.topology!r} may be half committed. Start the topology as it was, "
                "and let it end as STOPPED or FINISHED."
            )

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of all tasks before and after, of the bolts whose number of tasks changes."""
        return [
            task_namespace(self._prefix, component, index)
            for component, tasks in self.bolts.items()
            for index in range(max(tasks, self._record.parallelism[component]))
        ]

    def survey(self, storages: Mapping[str, StateStorage], heads: Mapping[str, NamespaceHead]) -> list[Rescaled]:
        """Read all keys, and check that each is in the task of its grouping. Writes nothing.

        Raises `MigrationRefused` if the keys do not prove how they are placed, or the state is a custom one.
        """
        found = []
        for component, after in self.bolts.items():
            before = self._record.parallelism[component]
            survey = Survey(component, self._functions, before, after)
            for index in range(before):
                name = task_namespace(self._prefix, component, index)
                if (storage := storages.get(name)) is None or not heads[name].codec:
                    continue
                codec = self._codec(name, heads)
                self._progress.begin(f"checking {name}", storage.count())
                for page in storage.scan():
                    survey.add(index, _Keys(name, codec).of(page)[1])
                    self._progress.advance(len(page))
            function = survey.proved()
            self._chosen[component] = self._functions[function]
            found.append(Rescaled(component, before, after, survey.keys, survey.moving[function], function))
        return found

    def move(self, transaction: OneTransaction) -> DecisionRecord:
        """Move the entries in one transaction; return its record. Call `survey` before."""
        winners: dict[str, Winner] = {}
        for component, after in self.bolts.items():
            names = [
                task_namespace(self._prefix, component, index)
                for index in range(max(after, self._record.parallelism[component]))
            ]
            headers = {transaction.heads[name].codec for name in names} - {""}
            if len(headers) > 1:
                raise MigrationRefused(
                    f"the tasks of {component!r} have the format headers {', '.join(sorted(headers))}: copy the state "
                    "to another store, which converts it, and rescale it there. Nothing was changed."
                )
            if not headers:
                continue  # nothing was ever written
            [header] = headers
            changes = [NamespaceChanges(transaction.storages[n], transaction.writer(n, header)) for n in names]
            for index in range(self._record.parallelism[component]):
                if transaction.heads[names[index]].codec:
                    self._move(component, index, names[index], transaction, changes)
            winners |= {name: change.sealed() for name, change in zip(names, changes, strict=True)}
        parallelism = {**self._record.parallelism, **self.bolts}
        return transaction.finish(replace(self._record, parallelism=parallelism), winners)

    def _move(
        self, component: str, index: int, name: str, transaction: OneTransaction, changes: Sequence[NamespaceChanges]
    ) -> None:
        storage, after, function = transaction.storages[name], self.bolts[component], self._chosen[component]
        keys = _Keys(name, self._codec(name, transaction.heads))
        times = self._record.times.get(component)
        now, watermark = self._record.clock, None if times is None else times.watermark
        self._progress.begin(f"moving the entries of {name}", storage.count())
        for page in storage.scan():
            entries, decoded = keys.of(page)
            tasks = tasks_of(function, decoded, after).tolist() if entries else ()
            moves = [(task, entry) for task, entry in zip(tasks, entries, strict=True) if task != index]
            leaving = page if index >= after else [entry for _, entry in moves]  # a task that is gone leaves its index
            changes[index].delete(key for key, _ in leaving)
            for task, (key, data) in moves:
                _arrive(changes[task], name, key, data, now, watermark)
            stage_if_many(changes)
            self._progress.advance(len(page))

    def _codec(self, name: str, heads: Mapping[str, NamespaceHead]) -> Codec:
        header = heads[name].codec
        if header == CUSTOM_HEADER:
            raise MigrationRefused(f"{name} belongs to a custom state, which Anchorbolt cannot divide.")
        return self._codec_of(name, header)

    def _check(self, component: str, tasks: int) -> None:
        record = self._record
        known = sorted(record.parallelism.keys() - {ACKER_ID})
        if component not in known:
            raise MigrationRefused(
                f"{record.topology!r} has no stateful bolt {component!r}; it has {', '.join(known) or 'none'}."
                f"{did_you_mean(component, known)}"
            )
        if tasks < 1:
            raise MigrationRefused(f"{component!r} cannot have {tasks} tasks: give at least 1.")
        for source, stream, grouping in record.groupings.get(component, ()):
            if not grouping.startswith(GROUPED_BY_KEY):
                raise MigrationRefused(
                    f"{component!r} gets the stream {stream!r} of {source!r} by {grouping}, not by a fields grouping: "
                    "its keys belong to no task, so that its state cannot be divided. Nothing was changed."
                )


def _arrive(changes: NamespaceChanges, source: str, key: bytes, data: bytes, now: int, watermark: int | None) -> None:
    """Put an entry or a timer into the namespace of another task, and into the index there."""
    if timer_key(key) is not None:
        clock, item, data = timer_indexed_anew(key, data, source)
        changes.index(clock, [item], now if clock is IndexClock.PROCESSING else watermark)
    else:
        try:
            due, value = split(data)
        except SerializationError as error:
            raise StateCorrupted(f"state {source!r}: {error}. {START_OVER}.", namespace=source) from error
        if due is not None:
            if due[0] <= now:
                return  # it has expired
            moved = due[0], indexed_at(due[0], now)
            changes.index(IndexClock.EXPIRY, [(moved[1], key)], now)
            data = joined(moved, value)
    changes.put([(key, data)])


class _Keys:
    """Reads the keys of a namespace."""

    def __init__(self, namespace: str, codec: Codec) -> None:
        self._namespace = namespace
        self._codec = codec

    def of(self, page: Sequence[tuple[bytes, bytes]]) -> tuple[Sequence[tuple[bytes, bytes]], list[Any]]:
        """Return the entries and timers of a page, without the index, and the key of each."""
        entries, encoded = page, [key for key, _ in page]
        if INDEX_TAG in b"".join(encoded):
            of_all = [timer_key(key) if key.startswith(INDEX_TAG) else key for key in encoded]
            entries = [entry for entry, key in zip(page, of_all, strict=True) if key is not None]
            encoded = [key for key in of_all if key is not None]
        try:
            return entries, list(map(self._codec.decode, encoded))
        except SerializationError as error:
            raise StateCorrupted(
                f"state {self._namespace!r}: a key cannot be decoded: {error}. {START_OVER}.", namespace=self._namespace
            ) from error
