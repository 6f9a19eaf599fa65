"""The driver's side of the outbox: publishes decided rows, and removes files that are no longer needed."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.sink_executor import OUTBOX, outbox_folder
from anchorbolt.errors import AnchorboltError, BoltError, ConfigError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.contract import Fence
from anchorbolt.util.locations import Folder, open_folder
from anchorbolt.util.user_traceback import user_traceback

_log = logging.getLogger("anchorbolt.engine")


class SinkOutbox:
    """The port `checkpoint.ports.Outbox`, at one checkpoint location."""

    def __init__(
        self,
        folder: Folder,
        sinks: Mapping[str, DataFrameSink],
        read_files: Callable[[Sequence[str]], Any],  # returns a Spark DataFrame of Parquet files
    ) -> None:
        self._folder = folder
        self._sinks = sinks
        self._read_files = read_files

    def publish(self, record: DecisionRecord, check_claim: Callable[[], None]) -> None:
        """Publish a decided wave, sink by sink.

        Raises:
            ConfigError: The topology no longer has a sink that rows were decided for.
            BoltError: A sink's function raised.
            Fenced: A newer driver has claimed the topology, and publishes the wave.
        """
        by_component: dict[str, list[SinkFile]] = {}
        for file in record.outbox:
            by_component.setdefault(file.component, []).append(file)
        for component, files in by_component.items():
            sink = self._sinks.get(component)
            if sink is None:
                raise ConfigError(
                    f"the decided txid {record.txid} has rows for sink {component!r}, which the topology "
                    "no longer has. Start it once more with that sink, so that they are published."
                )
            check_claim()
            reach(FaultPoint.SINK_PUBLISHING, component, txid=record.txid)
            try:
                sink.publish(record.txid, files, self._read_files)
            except Exception as error:
                check_claim()  # a newer driver has published these rows, and removed their files
                if isinstance(error, AnchorboltError):
                    raise
                text = user_traceback(error)
                raise BoltError(
                    f"{text}\n\nraised while sink {component!r} published txid {record.txid}. The wave is decided and "
                    "its state committed; the next start publishes the same rows again, before anything else.",
                    component=component,
                    task_index=0,
                    tuple_text=None,
                    user_traceback=text,
                ) from error
            reach(FaultPoint.SINK_PUBLISHED, component, txid=record.txid)

    def without_lost(self, record: DecisionRecord) -> DecisionRecord:
        """Only for a user who accepted a new query although the old checkpoint location is gone."""
        there: list[SinkFile] = []
        lost: dict[str, list[SinkFile]] = {}
        for file in record.outbox:
            folder, _, name = file.path.rpartition("/")
            if open_folder(folder).exists(name):
                there.append(file)
                continue
            sink = self._sinks.get(file.component)
            if sink is None or not sink.is_published(record.txid, file):
                lost.setdefault(file.component, []).append(file)
        for component, files in lost.items():
            _log.warning(
                "%d rows of txid %d for sink %r were decided, may not have been published, and are gone with the "
                "checkpoint location (%s): the run continues without them. The state is that of after these rows.",
                sum(file.rows for file in files),
                record.txid,
                component,
                ", ".join(file.path for file in files),
            )
        return replace(record, outbox=tuple(there))

    def drop_round(self, fence: Fence) -> None:
        self._folder.remove_tree(outbox_folder(fence))

    def clean(self, record: DecisionRecord, generation: int) -> None:
        kept = {file.path.split("/")[-2] for file in record.outbox}
        for name in list(self._folder.names(OUTBOX)):
            owner = name.partition("-")[0]
            if name not in kept and owner.isdigit() and int(owner) <= generation:
                self._folder.remove_tree(f"{OUTBOX}/{name}")
