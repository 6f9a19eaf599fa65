"""The streaming query of a run, as a source: each micro-batch is the batch of a wave.

Spark calls `foreachBatch` on the query's thread. That thread hands the micro-batch over to the thread of the wave loop,
and waits until the loop has committed it.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import query_id_at
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.spark.callbacks import BatchCallback, forget_listeners
from anchorbolt.engine.spark.jobs import collect_rows
from anchorbolt.engine.spark.remote import RemoteStage
from anchorbolt.engine.spark.session import build_session, engine_session, java_exit_code, use_checkpoint_location
from anchorbolt.engine.spark.shipping import ship
from anchorbolt.engine.spark.sources.files import SourceFiles, files_with_undecoded_text
from anchorbolt.engine.spark.sources.kafka_failures import explained_failure, explained_loss, kafka_sources
from anchorbolt.engine.spark.sources.known import KnownSources
from anchorbolt.engine.spark.sources.lag import SourceLag
from anchorbolt.engine.spark.sources.rows import known_sources, source_rows
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.value_checks import UNDECODED
from anchorbolt.errors import AnchorboltError, QueryChanged, StateUnavailable, UnsupportedValue, WaveFailed
from anchorbolt.files import Folder, local_path
from anchorbolt.util.messages import counted

_log = logging.getLogger("anchorbolt.engine")

_METADATA = "metadata"  # the file that Spark writes first
_OTHER_SOURCES = re.compile(r"There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\]")
_INCOMPLETE = re.compile(r"Failed to read log file (\S+)\. Incomplete log file")

_JVM_LOST = (Py4JNetworkError, OSError)  # raised by py4j when the JVM does not exist any more


def local_query(plan: ExecutionPlan, folder: Folder) -> QuerySource:
    """Return the source for the stream spouts of a topology on `LocalCluster`. A local Spark runs only their stage."""
    spark = build_session(plan.topology)
    ship(spark.sparkContext)
    session = engine_session(spark)
    use_checkpoint_location(session, plan.checkpoint_location)
    known = known_sources(plan, folder)
    stage = partial(RemoteStage, "spout", plan.run_id, plan.pickled("provider"))
    frame = source_rows(session, plan, stage, known)
    return QuerySource(plan, folder, session, frame, known)


@dataclass(eq=False)
class MicroBatch:
    """A micro-batch that Spark has handed to `foreachBatch`."""

    frame: DataFrame
    batch_id: int
    query_id: str
    properties: Any  # the local properties of the query's thread, which assign jobs to the query
    offsets: bytes = b""  # as in the file of the checkpoint location


class QuerySource(Source):
    """One streaming query and its `foreachBatch`.

    Attributes:
        query: Spark's own object; None until it is started.
        frame: The rows of the current wave's micro-batch; None in a wave without one.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        folder: Folder,  # the checkpoint location
        session: SparkSession,
        stages: DataFrame,  # the stages of the query
        known: KnownSources,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._session = session
        self._stages = stages
        self._known = known
        self._source_files = SourceFiles(folder, session)
        self._lag = SourceLag(list(plan.graph.stream_spouts))
        self.query: StreamingQuery | None = None
        self.frame: DataFrame | None = None
        self._is_draining = False
        self._changed = threading.Condition()
        self._given: MicroBatch | None = None  # the query's thread waits until this is None again, or all is closed
        self._batch: Batch | None = None  # of `_given`, once `poll` has read its offsets
        self._txid = -1  # of the current wave
        self._is_settled = False  # the wave with the micro-batch has committed
        self._yields = False  # after it: sources that need a wave without a micro-batch have their turn
        self._own_properties: Any = None  # of the loop's thread, kept while it has those of the query
        self._closed_by = ""  # why the query's thread is to end
        self._has_ended = threading.Event()
        self._ended_by: Exception | None = None
        self._callback = BatchCallback(session, self.on_batch)
        self._waiter = threading.Thread(target=self._wait_for_end, name="anchorbolt-query", daemon=True)

    def query_id(self) -> str:
        return query_id_at(self._folder)

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        self._checkpoints, self._wake = checkpoints, wake
        interval = f"{self._plan.settings.checkpoint_interval_ms} milliseconds"
        try:
            self._known.record()
            writer = (
                self._stages.writeStream.foreachBatch(self._callback)
                .queryName(self._plan.topology)
                .option("checkpointLocation", self._plan.checkpoint_location)
            )
            writer = writer.trigger(availableNow=True) if until_empty else writer.trigger(processingTime=interval)
            self.query = writer.start()
        except PySparkException as error:
            raise WaveFailed(f"Spark could not start the streaming query: {error}", txid=-1) from error
        self._waiter.start()

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Hand over a micro-batch. Spark calls this on the query's thread for each one. An exception ends the query.

        In a pause the batch waits here: Spark has planned it, but runs no job for it, and sets no time limit.
        """
        context = frame.sparkSession.sparkContext
        query_id = context.getLocalProperty("sql.streaming.queryId") or ""
        given = MicroBatch(frame, batch_id, query_id, _properties_here(frame.sparkSession))
        with self._changed:
            self._given = given
        self._wake()
        with self._changed:
            self._changed.wait_for(lambda: self._given is not given or self._closed_by != "")
            if self._given is given:
                raise _Ended(self._closed_by)

    def check(self) -> None:
        if not self._has_ended.is_set() or self.is_over:
            return
        if self._ended_by is not None and not self._is_draining:
            raise self._end_of_query(self._ended_by)
        self.is_over = True

    def poll(self) -> bool:
        """Return whether a micro-batch waits that has not been committed yet."""
        given = self._given
        if self._yields:
            self._yields = False
            return False
        if given is None or self.is_held or self._is_draining:
            return False
        if self._batch is None:
            self._batch = self._looked_at(given)
            if self._checkpoints.is_committed(self._batch):
                _log.info("batch %d is committed already and is skipped", given.batch_id)
                self._give_back()
        return self._batch is not None

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        given = self._given
        if given is None or self._batch is None:
            return batch
        self._txid = record.txid + 1
        self._own_properties = _properties_here(self._session)
        _work_for(given.frame.sparkSession, given.properties)
        self._source_files.check(given.batch_id, given.offsets, self._txid)
        self._give_up_removed_spouts()
        self.frame = given.frame
        return self._batch

    def rows(self, current: Round) -> Iterable[Envelope]:
        return () if self.frame is None else collect_rows(self._session, self._plan, self.frame, current)

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        if self.frame is None:
            return report
        assert self.query is not None
        assert self._given is not None
        lag = self._lag.of(self.query, self._given.offsets)
        self._is_settled = self._yields = True
        return replace(report, source_offsets_behind=lag.offsets, source_files_waiting=lag.files)

    def end_wave(self, txid: int) -> None:
        self.frame = None
        if self._is_settled:
            self._is_settled = False
            self._give_back()
        if self._own_properties is not None:
            with suppress(*_JVM_LOST):
                _work_for(self._session, self._own_properties)
            self._own_properties = None

    def explained(self, error: BaseException) -> BaseException:
        if self.frame is None or self._given is None:
            return error
        batch_id, txid = self._given.batch_id, self._txid
        if isinstance(error, WaveFailed):
            try:
                self._source_files.check(batch_id, self._given.offsets, txid, failed=True)
            except AnchorboltError as missing:
                return missing
            if lost := explained_loss(error.message, txid - 1):
                return WaveFailed(f"Spark cannot read batch {batch_id}: {lost}", txid=txid)
        if isinstance(error, UnsupportedValue) and UNDECODED in error.message:
            files = files_with_undecoded_text(self._session, self._source_files.checked)
            if files:
                return UnsupportedValue(f"{error.message} It is in {', '.join(files)}.")
        return error

    def drain(self) -> None:
        self._is_draining = True

    @property
    def is_empty(self) -> bool:
        return self.is_over

    def close(self, failure: BaseException | None) -> BaseException | None:
        """End the query, which is between two micro-batches or waits in `on_batch`."""
        with self._changed:
            is_waiting = self._given is not None
            self._closed_by = "it was stopped" if failure is None else f"it has failed with {type(failure).__name__}"
            self._changed.notify_all()
        try:
            if self.query is not None:
                ends_by_itself = self._has_ended.is_set() or (failure is not None and is_waiting)  # see `on_batch`
                if not ends_by_itself:
                    with suppress(PySparkException, Py4JError, OSError):  # it may have ended, or lost its JVM
                        self.query.stop()
                self._waiter.join()
        finally:  # remove all remains of the query from Python and the JVM
            self._callback.release()
            forget_listeners(self._session)
        if failure is None or self._ended_by is None or not self._failed_with_the_jvm(failure):
            return failure
        return None if self._is_draining else self._end_of_query(self._ended_by)

    def _wait_for_end(self) -> None:
        assert self.query is not None
        try:
            self.query.awaitTermination()
        except Exception as error:  # StreamingQueryException, or an error of py4j if the JVM is lost
            self._ended_by = error
        self._has_ended.set()
        self._wake()

    def _looked_at(self, given: MicroBatch) -> Batch:
        self._checkpoints.bind_query(given.query_id)
        try:
            given.offsets = offsets = self._folder.read(f"offsets/{given.batch_id}") or b""
        except OSError as error:
            raise StateUnavailable(
                f"the offsets of batch {given.batch_id} cannot be read from the checkpoint location "
                f"{self._folder.location}: {error}. Make it readable, and start again."
            ) from error
        if local_path(self._folder.location) is not None and not self._folder.exists(_METADATA):
            raise WaveFailed(self._location_gone(), txid=self._checkpoints.record.txid + 1)
        return Batch(given.query_id, given.batch_id, hashlib.sha256(offsets).hexdigest() if offsets else "")

    def _give_back(self) -> None:
        """Let the query continue, because its micro-batch has committed."""
        with self._changed:
            self._given = self._batch = None
            self._changed.notify_all()

    def _end_of_query(self, error: Exception) -> AnchorboltError:
        """Return the run's error for an error that has ended its query."""
        failure = self._failure(error)
        failure.__cause__ = error
        try:
            # If a newer driver has taken over, Spark fails with an error that does not say so.
            self._checkpoints.check_not_overtaken()
        except AnchorboltError as overtaken:
            overtaken.__cause__ = failure
            return overtaken
        return failure

    def _failed_with_the_jvm(self, failure: BaseException) -> bool:
        """Return whether the wave has failed only because the query has lost its JVM."""
        is_of_a_wave = isinstance(failure, Exception) and not isinstance(failure, AnchorboltError)
        return isinstance(self._ended_by, _JVM_LOST) and (is_of_a_wave or isinstance(failure, WaveFailed))

    def _give_up_removed_spouts(self) -> None:
        if not self._known.keeps_removed:
            return
        self._checkpoints.check_not_overtaken()  # otherwise `give_up` would overwrite a newer driver's file
        try:
            self._known.give_up()
        except OSError as error:
            raise StateUnavailable(
                f"the checkpoint location {self._folder.location} cannot be written: {error}. Make it writable, and "
                "start again."
            ) from error

    def _failure(self, error: Exception) -> AnchorboltError:
        if changed := _OTHER_SOURCES.search(str(error)):
            return QueryChanged(
                f"the checkpoint location {self._folder.location} was written with "
                f"{counted(int(changed[1]), 'source')}, and the topology has {changed[2]} now: a spout was added or "
                "removed. Set it back. Or continue with a new checkpoint location, as "
                "docs/failures/checkpoint-location.md says."
            )
        spouts = list(self._plan.graph.stream_spouts)
        if of_kafka := explained_failure(str(error), lambda: kafka_sources(self._stages, spouts)):
            return of_kafka
        return WaveFailed(f"the streaming query ended: {self._reason(error)}", txid=-1)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, _JVM_LOST):
            code = java_exit_code()
            ended = "" if code is None else f"exit code {code}, "
            return (
                f"Spark's Java process is gone ({ended}{error}): it crashed, or was killed (exit code -9: by the "
                "kernel, if memory ran out). See its last output. Start again: the run resumes after the last "
                "committed wave."
            )
        text = str(error)
        if lost := explained_loss(text, self._checkpoints.record.txid):
            return lost
        if damaged := _INCOMPLETE.search(text):
            return (
                f"the file {damaged[1]} of the checkpoint location is empty or incomplete, as after a loss of power or "
                "on a full disk. Restore the store and the checkpoint location from backups of one moment, as "
                "docs/failures/checkpoint-location.md says."
            )
        with suppress(OSError):  # a location that cannot be read is not gone
            if not self._folder.exists(_METADATA):
                return self._location_gone()
        # The text continues with the query's whole plan.
        return text.partition("=== Streaming Query ===")[0].rstrip()

    def _location_gone(self) -> str:
        return (
            f"the checkpoint location {self._folder.location} was deleted or moved during the run. The state is "
            f"at txid {self._checkpoints.record.txid}. Put the location back. If it is lost, start again with another "
            "one, as docs/failures/checkpoint-location.md says."
        )


class _Ended(Exception):
    """Ends the query's thread, because no wave takes its micro-batch. The run's own error says more."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the run has ended: {why}")


def _properties_here(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc().getLocalProperties().clone()


def _work_for(session: SparkSession, properties: Any) -> None:
    """Make this the active session of this thread, and give the thread local properties."""
    context = session.sparkContext
    if context._jsc is None:  # Spark was stopped
        return
    context._jsc.sc().setLocalProperties(properties)
    SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
