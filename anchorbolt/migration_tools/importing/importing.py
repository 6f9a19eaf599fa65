"""Puts the entries of a file into the state of a bolt of a stopped topology, in one more transaction.

The file is read twice: first to check every line, then to stage the entries. Memory is bounded by a page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.errors import MigrationRefused, SerializationError, StateCorrupted, UnsupportedValue
from anchorbolt.maintenance.key_placement import KEY_FUNCTIONS, KeyFunction, Survey, tasks_of
from anchorbolt.maintenance.namespace_changes import NamespaceChanges, stage_if_many
from anchorbolt.maintenance.one_transaction import OneTransaction
from anchorbolt.maintenance.rescaling import GROUPED_BY_KEY
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs, stored_codecs
from anchorbolt.migration_tools.importing.entry_lines import EntryFile, EntryLine
from anchorbolt.migration_tools.stopped_topology import begun, read_stopped
from anchorbolt.serialization.codecs import FIRST_VERSION, INDEX_TAG, Schema
from anchorbolt.state_backends.contract import START_OVER, StateProvider
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.state_backends.timed.entries import NextDue
from anchorbolt.state_backends.timed.expiry import Due, indexed_at, joined, keeps_item, split
from anchorbolt.state_backends.timed.index import IndexClock
from anchorbolt.util.messages import did_you_mean, shortened


@dataclass(frozen=True)
class ImportReport:
    """The result of an import, or of a dry run.

    Attributes:
        store: Description of the store.
        entries: The number of entries in the file, without expired ones.
        expired: The number of entries in the file that have expired; they are not put.
        removed: With `replaces`, the number of entries that the bolt had before; otherwise 0.
        txid: The transaction that put them, or would put them; None if there is nothing to do.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    store: str
    entries: int
    expired: int
    removed: int
    txid: int | None
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


def import_entries(
    provider: StateProvider,
    topology: str,
    prefix: str,
    component: str,
    path: Path,
    codecs: Codecs,
    *,
    now: int,
    replaces: bool = False,
    key_functions: Mapping[str, KeyFunction] | None = None,
    take_fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Put the entries of a file of JSON lines into the state of the stateful bolt `component`, in one transaction.

    Each entry goes to the task to which a fields grouping sends its key. The keys that the bolt has must prove how they
    are grouped. Of two lines with one key, the later one counts. Timers do not change.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        component: Id of the bolt.
        path: The file.
        codecs: The configured codecs.
        now: The time, in ms since 1970. If the clock of the last wave is later, that one counts.
        replaces: Delete the entries that the file does not have.
        key_functions: Functions that return the grouping value of a key, by name; by default the key itself, or its
            first item, whichever agrees with all keys.
        take_fence: Continue even if a run holds the fence: a run that is alive ends with `Fenced` at its next wave, and
            a killed run no longer blocks the command.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        MigrationRefused: A run is alive, a transaction is open or a batch may be half committed; the bolt has no state
            or a custom one; its keys do not prove how they are placed; or a line is not an entry that the bolt can
            have. Nothing was changed.
        ConfigError: The file cannot be read.
        Fenced: A run has started meanwhile.
        StateError: The codecs are not known, or the store failed; see `StateStorage`.
    """
    snapshot, record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)
    if component not in record.parallelism or component.startswith("__"):
        known = sorted(each for each in record.parallelism if not each.startswith("__"))
        raise MigrationRefused(
            f"{topology!r} has no stateful bolt {component!r}; it has {', '.join(known) or 'none'}."
            f"{did_you_mean(component, known)} Nothing was changed."
        )
    count = record.parallelism[component]
    names = [task_namespace(prefix, component, index) for index in range(count)]
    headers = {head.codec for name in names if (head := snapshot.heads.get(name)) is not None and head.codec}
    if CUSTOM_HEADER in headers or len(headers) > 1:
        raise MigrationRefused(
            f"the tasks of {component!r} have the formats {', '.join(sorted(headers))}: entries cannot be put into a "
            "custom state, or into several formats. Nothing was changed."
        )
    progress = progress or Progress()
    target = _Target(provider, record, component, names, next(iter(headers), ""), codecs, max(now, record.clock))
    file = EntryFile(path)
    removed = target.survey(key_functions or KEY_FUNCTIONS, progress)
    entries, expired = target.check(file, progress)
    digest, is_empty = file.digest, not (entries or (replaces and removed))
    report = ImportReport(
        provider.describe(),
        entries,
        expired,
        removed if replaces else 0,
        None if is_empty else record.txid + 1,
        dry_run,
    )
    if dry_run or is_empty:
        return report
    with begun(provider, snapshot, record, names, command="import") as transaction:
        target.put(transaction, file, digest, progress, replaces=replaces)
    return report


class _Target:
    """The tasks of the bolt."""

    def __init__(
        self,
        provider: StateProvider,
        record: DecisionRecord,
        component: str,
        names: Sequence[str],
        header: str,
        codecs: Codecs,
        now: int,
    ) -> None:
        self._provider = provider
        self._record = record
        self._component = component
        self._names = names
        self._now = now
        self._times = record.times.get(component, BoltTimes())
        self._version = record.state_schemas.get(component, FIRST_VERSION)
        self._functions: Sequence[KeyFunction] = ()  # that may place the keys
        used = stored_codecs(names[0], header, codecs) if header else codecs
        with closing(provider.open(names[0])) as storage:
            self._encodings = {
                version: EntryEncoding(names[0], used.keys, used.values, Schema(version), storage.limits)
                for version in range(FIRST_VERSION, self._version + 1)
            }
        self._encoding = self._encodings[self._version]
        self._header = header or self._encoding.header

    def survey(self, functions: Mapping[str, KeyFunction], progress: Progress) -> int:
        """Check that the bolt's keys are where its grouping puts them; return their number."""
        tasks, component, found = len(self._names), self._component, 0
        for source, stream, grouping in self._record.groupings.get(component, ()) if tasks > 1 else ():
            if not grouping.startswith(GROUPED_BY_KEY):
                raise MigrationRefused(
                    f"{component!r} gets the stream {stream!r} of {source!r} by {grouping}, not by a fields grouping: "
                    "its keys belong to no task. Nothing was changed. Put them one by one with state put --task N."
                )
        survey = Survey(component, functions, tasks, tasks)
        for task, name in enumerate(self._names):
            with closing(self._provider.open(name)) as storage:
                progress.begin(f"checking {name}", storage.count())
                for page in storage.scan():
                    keys = [key for key, _ in page if not key.startswith(INDEX_TAG)]
                    found += len(keys)
                    if tasks > 1:
                        survey.add(task, [self._encoding.key_from(key) for key in keys])
                    progress.advance(len(page))
        survey.proved()
        self._functions = list(survey.fitting.values())
        return found

    def check(self, file: EntryFile, progress: Progress) -> tuple[int, int]:
        """Check every line; return the numbers of entries and of expired ones."""
        entries = expired = 0
        progress.begin(f"checking {file.path}", None)
        for page in file.pages():
            live = [line for line in page if not self._has_expired(line)]
            for line in page:
                self._encoded(file, line)
            self._tasks(file, live)
            entries, expired = entries + len(live), expired + len(page) - len(live)
            progress.advance(len(page))
        return entries, expired

    def put(
        self, transaction: OneTransaction, file: EntryFile, digest: bytes, progress: Progress, *, replaces: bool
    ) -> None:
        """Stage the entries of the file, and commit."""
        changes = [NamespaceChanges(transaction.storages[n], transaction.writer(n, self._header)) for n in self._names]
        for name, each in zip(self._names, changes, strict=True) if replaces else ():
            progress.begin(f"removing the entries of {name}", transaction.storages[name].count())
            for stored in transaction.storages[name].scan():
                each.delete(key for key, _ in stored if not key.startswith(INDEX_TAG))
                stage_if_many(changes)
                progress.advance(len(stored))
            each.stage()  # what is put again later counts: it is in a later slice
        progress.begin(f"putting the entries of {file.path}", None)
        for page in file.pages():
            by_task = defaultdict[int, dict[bytes, tuple[bytes, int | None]]](dict)
            live = [line for line in page if not self._has_expired(line)]
            for line, task in zip(live, self._tasks(file, live), strict=True):
                key, data = self._encoded(file, line)
                by_task[task][key] = data, line.expires_at
            for task, entries in by_task.items():
                changes[task].put(self._timed(transaction, task, entries, changes[task]))
            stage_if_many(changes)
            progress.advance(len(page))
        if file.digest != digest:
            raise MigrationRefused(f"{file.path} has changed while it was read. Nothing was changed. Try again.")
        winners = {name: each.sealed() for name, each in zip(self._names, changes, strict=True)}
        due = self._times.due
        first = NextDue.earliest([due, *(NextDue(expiry=each.next_due(IndexClock.EXPIRY)) for each in changes)])
        record = self._record
        if first.expiry != due.expiry:
            times = replace(self._times, due=due._replace(expiry=first.expiry))
            record = replace(record, times={**record.times, self._component: times})
        transaction.finish(record, winners)

    def _timed(
        self,
        transaction: OneTransaction,
        task: int,
        entries: Mapping[bytes, tuple[bytes, int | None]],
        changes: NamespaceChanges,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries as they are to be stored; add those with a due time to the index."""
        expiring = [key for key, (_, at) in entries.items() if at is not None]
        stored = transaction.storages[self._names[task]].get_many(expiring) if expiring else []
        dues = dict(zip(expiring, map(_due_of, stored), strict=True))
        for key, (data, at) in entries.items():
            if at is None:
                yield key, data
                continue
            due, latest = dues[key], indexed_at(at, self._now)
            indexed = due[1] if due is not None and keeps_item(due, at, latest, self._now) else latest
            if due is None or indexed != due[1]:
                changes.index(IndexClock.EXPIRY, [(indexed, key)], self._now)
            yield key, joined((at, indexed), data)

    def _has_expired(self, line: EntryLine) -> bool:
        return line.expires_at is not None and line.expires_at <= self._now

    def _encoded(self, file: EntryFile, line: EntryLine) -> tuple[bytes, bytes]:
        if line.version > self._version:
            raise file.refused(line.number, f"schema_version is {line.version}, and the bolt has {self._version}")
        encoding = self._encodings[line.version]
        try:
            [key] = encoding.key_bytes([encoding.cache_key(line.key)])
            [data] = encoding.value_bytes([encoding.value_to_cache(line.key, line.value)])
        except UnsupportedValue as error:
            raise file.refused(line.number, error.message.rstrip(".")) from error
        assert data is not None, "it is the encoding of a value"
        return key, data

    def _tasks(self, file: EntryFile, lines: Sequence[EntryLine]) -> list[int]:
        """Return the task of each entry. Raises `MigrationRefused` if it is not known."""
        if len(self._names) == 1 or not lines:
            return [0] * len(lines)
        keys = [line.key for line in lines]
        first, *others = (tasks_of(function, keys, len(self._names)) for function in self._functions)
        for other in others:
            if (first != other).any():
                line = lines[int((first != other).argmax())]
                raise file.refused(
                    line.number,
                    f"{shortened(line.key)} may be the grouping value, or begin with it, as the keys of windows do: "
                    "give --key-function key, or --key-function 'key[0]'",
                )
        return [int(task) for task in first]


def _due_of(stored: bytes | None) -> Due | None:
    try:
        return None if stored is None else split(stored)[0]
    except SerializationError as error:
        raise StateCorrupted(f"an entry has a damaged due time: {error}. {START_OVER}.") from error
