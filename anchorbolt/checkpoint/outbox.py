"""The driver's side of the sinks' outbox: publishes the rows that tasks wrote there, once they are decided.

Each task writes one Parquet file, named by round and attempt, at the checkpoint location: see `SinkExecutor`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile, SinkPublisher, SinkRun
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import AnchorboltError, BoltError, ConfigError, SinkUnavailable, StateUnavailable, WaveFailed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import FileSystemGone, Folder, Locations
from anchorbolt.state_backends.state import Fence
from anchorbolt.util.messages import user_traceback
from anchorbolt.util.retry import NO_RETRY, RetryPolicy

_log = logging.getLogger("anchorbolt.checkpoint")

OUTBOX = "anchorbolt/outbox"  # below the checkpoint location


def round_folder(fence: Fence) -> str:
    """Return the folder of a round, below the checkpoint location. No other driver or round writes there."""
    return f"{OUTBOX}/{fence.generation}-{fence.seq}"


class Outbox:
    """The driver's side of the outbox: publishes decided rows, and removes files that are no longer needed."""

    def __init__(
        self,
        folder: Folder,
        sinks: Mapping[str, DataFrameSink],
        # Returns a Spark DataFrame of Parquet files; the arguments are their locations by columns, and all columns.
        read_files: Callable[[Mapping[bytes, Sequence[str]], bytes], Any],
        locations: Locations,
        retry: RetryPolicy = NO_RETRY,
        *,
        shared_by_machines: bool = False,  # whether tasks write files on other machines
    ) -> None:
        self._shared_by_machines = shared_by_machines
        self._folder = folder
        self._sinks = sinks
        self._publishers: dict[str, SinkPublisher] = {}  # of the sinks with a run
        self._read_files = read_files
        self._locations = locations
        self._retry = retry

    def begin_run(self, topology: str, record: DecisionRecord, check_claim: Callable[[], None]) -> None:
        """Let each sink prepare for the waves after `record`, and for its wave if that is decided but not committed."""
        is_pending = record.state.phase is Phase.COMMITTING
        for component, sink in self._sinks.items():
            pending = [file for file in record.outbox if is_pending and file.component == component]
            run = SinkRun(topology, component, record.txid, pending, check_claim, self._retry, self._locations)
            self._publishers[component] = sink.begin_run(run)

    def end_run(self) -> None:
        """Let each sink end its run. Does not raise: the caller has more to close."""
        while self._publishers:
            component, publisher = self._publishers.popitem()
            try:
                publisher.end_run()
            except Exception:
                _log.warning("sink %r has failed to end its run", component, exc_info=True)

    def check_prepared(self, txid: int, files: Sequence[SinkFile]) -> None:
        """Check that the driver sees the files of a round, so that it decides no rows that it cannot publish.

        A machine that joined after the check before the run may have its own disk there. Costs one listing of the
        round's folder; nothing if all tasks run on the driver's machine. Raises `WaveFailed` if a file is missing, and
        `SinkUnavailable` if the folder cannot be listed.
        """
        if not self._shared_by_machines:
            return
        seen: dict[str, set[str]] = {}
        for file in files:
            folder, name = file.path.split("/")[-2:]
            if folder not in seen:
                try:
                    seen[folder] = set(self._folder.names(f"{OUTBOX}/{folder}"))
                except OSError as error:
                    raise SinkUnavailable(
                        f"the outbox in {self._folder.location} cannot be listed: {error}. Make it readable."
                    ) from error
            if name not in seen[folder]:
                raise WaveFailed(
                    f"the driver does not see what task {file.task_index} of sink {file.component!r} has written for "
                    f"txid {txid}: {file.path}. The task's machine has another file system there, such as a disk of "
                    "its own in place of a missing mount. Nothing of this wave is decided. Mount the driver's "
                    f"{self._folder.location} on every machine that runs tasks, or set topology.checkpoint.location "
                    "to a URI such as hdfs: or s3a:.",
                    txid=txid,
                )

    def publish(self, record: DecisionRecord, check_claim: Callable[[], None]) -> None:
        """Publish the rows of a decided wave, sink by sink; may be repeated. Calls `check_claim` before each sink."""
        by_component: dict[str, list[SinkFile]] = {}
        for file in record.outbox:
            by_component.setdefault(file.component, []).append(file)
        for component, written in by_component.items():
            known = record.schemas.get(component, b"")
            files = [replace(file, known=known) for file in written]
            sink = self._publisher(component)
            if sink is None:
                raise ConfigError(
                    f"the decided txid {record.txid} has rows for sink {component!r}, which the topology "
                    "no longer has. Start it once more with that sink, so that they are published."
                )
            check_claim()
            reach(FaultPoint.SINK_PUBLISHING, component, txid=record.txid)
            try:
                sink.publish(record.txid, files, partial(self._read, {file.path: file for file in files}))
            except Exception as error:
                check_claim()  # `Fenced` if a newer driver has published these rows and removed their files
                if isinstance(error, AnchorboltError):
                    raise
                text = user_traceback(error)
                raise BoltError(
                    f"{text}\n\nraised while sink {component!r} published txid {record.txid}. The wave is decided and "
                    "its state committed; the next start publishes the same rows again, before anything else.",
                    component=component,
                    task_index=0,
                    user_traceback=text,
                ) from error
            reach(FaultPoint.SINK_PUBLISHED, component, txid=record.txid)
        for component, publisher in self._publishers.items():
            if component not in by_component:
                publisher.publish_nothing(record.txid)

    def _read(self, files: Mapping[str, SinkFile], locations: Sequence[str]) -> Any:
        """Return a Spark DataFrame of some files of one sink."""
        by_columns: dict[bytes, list[str]] = {}
        for location in locations:
            by_columns.setdefault(files[location].schema, []).append(location)
        return self._read_files(by_columns, files[locations[0]].known)

    def _publisher(self, component: str) -> SinkPublisher | None:
        return self._publishers.get(component, self._sinks.get(component))

    def without_lost(self, record: DecisionRecord) -> DecisionRecord:
        """Return the record without files that are gone. Warn of each sink with rows that may be unpublished.

        Call this only if the user accepted a new query, although the old checkpoint location is gone. Raises
        `StateUnavailable` or `ConfigError` if the file system cannot be reached to check the files.
        """
        there: list[SinkFile] = []
        lost: dict[str, list[SinkFile]] = {}
        for file in record.outbox:
            try:
                if self._is_there(file):
                    there.append(file)
                    continue
                sink = self._publisher(file.component)
                is_lost = sink is None or not sink.is_published(record.txid, file)
            except (OSError, ConfigError) as error:
                kind = ConfigError if isinstance(error, ConfigError) else StateUnavailable
                raise kind(
                    f"whether rows of txid {record.txid} for sink {file.component!r} still wait to be published cannot "
                    f"be found out. They were written to {file.path}, and: {error}. Start again when that can be "
                    "reached, with the settings that it had. If it is gone for good, have its name lead to an empty "
                    "file system (a new bucket; an HDFS at the same address): the rows then count as lost, and a "
                    "warning names them."
                ) from error
            if is_lost:
                lost.setdefault(file.component, []).append(file)
        for component, files in lost.items():
            _log.warning(
                "%d rows of txid %d for sink %r were decided, may not have been published, and are gone with the "
                "checkpoint location (%s): the run continues without them. The state includes these rows.",
                sum(file.rows for file in files),
                record.txid,
                component,
                ", ".join(file.path for file in files),
                extra={"txid": record.txid, "component": component},
            )
        return replace(record, outbox=tuple(there))

    def _is_there(self, file: SinkFile) -> bool:
        folder, _, name = file.path.rpartition("/")
        try:
            return self._locations.open(folder).exists(name)
        except (FileNotFoundError, FileSystemGone):
            return False

    def drop_round(self, fence: Fence) -> None:
        """Remove the files of a failed round. If that fails, `clean` removes them later."""
        with _later():
            self._folder.remove_tree(round_folder(fence))

    def clean(self, record: DecisionRecord, generation: int) -> None:
        """Remove the files of this and older drivers, except the record's. If that fails, the next call does it."""
        kept = {file.path.split("/")[-2] for file in record.outbox}
        with _later():
            for name in list(self._folder.names(OUTBOX)):
                owner = name.partition("-")[0]
                if name not in kept and owner.isdigit() and int(owner) <= generation:
                    self._folder.remove_tree(f"{OUTBOX}/{name}")


@contextmanager
def _later() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _log.info("files of the outbox cannot be removed now: %s", error)
