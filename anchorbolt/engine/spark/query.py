"""The streaming query of a run: runs each micro-batch as a wave, and stops only between two waves."""

import hashlib
import logging
import re
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.checkpoint.decision_log import query_id_at
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.one_wave import OneWave
from anchorbolt.engine.driver.pause import Pause
from anchorbolt.engine.driver.wave_report import summarise
from anchorbolt.engine.driver.waves import WaveCommitted
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.callbacks import BatchCallback, forget_listeners
from anchorbolt.engine.spark.sources.files import SourceFiles, files_with_undecoded_text
from anchorbolt.engine.spark.sources.kafka_failures import explained_failure, explained_loss, kafka_sources
from anchorbolt.engine.spark.sources.known import KnownSources
from anchorbolt.engine.spark.sources.lag import SourceLag
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.task.value_checks import UNDECODED
from anchorbolt.errors import AnchorboltError, QueryChanged, StateUnavailable, UnsupportedValue, WaveFailed
from anchorbolt.files import Folder, local_path
from anchorbolt.util.messages import counted

_log = logging.getLogger("anchorbolt.engine")

_METADATA = "metadata"  # the file that Spark writes first
_OTHER_SOURCES = re.compile(r"There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\]")
_INCOMPLETE = re.compile(r"Failed to read log file (\S+)\. Incomplete log file")

_STOP_POLL_S = 0.1
_JVM_LOST = (Py4JNetworkError, OSError)  # raised by py4j when the JVM does not exist any more


class WaveQuery:
    """The port `anchorbolt.engine.driver.waves.Waves`: one streaming query and its `foreachBatch`."""

    def __init__(
        self,
        plan: ExecutionPlan,
        folder: Folder,  # the checkpoint location
        session: SparkSession,
        frame: DataFrame,
        known: KnownSources,
        spouts: DriverSpouts | None = None,  # whose tuples the waves take in
    ) -> None:
        self._plan = plan
        self._spouts = spouts
        self._folder = folder
        self._frame = frame
        self._known = known
        self._source_files = SourceFiles(folder, session)
        self._lag = SourceLag(list(plan.graph.stream_spouts))
        self.batch: DataFrame | None = None  # the micro-batch of the current wave
        self._stop_requested = threading.Event()
        self._pause = Pause()
        self.one_wave = OneWave()  # held during a wave
        self._wave_thread: int | None = None
        self._wave_failure: BaseException | None = None
        self.query: StreamingQuery | None = None
        self._session = session
        self._callback = BatchCallback(session, self._on_batch)

    def query_id(self) -> str:
        return query_id_at(self._folder)

    def start(self, spout: CheckpointSpout, add: WaveCommitted, *, until_empty: bool) -> None:
        self._spout, self._add = spout, add
        interval = f"{self._plan.settings.checkpoint_interval_ms} milliseconds"
        try:
            self._known.record()
            writer = (
                self._frame.writeStream.foreachBatch(self._callback)
                .queryName(self._plan.topology)
                .option("checkpointLocation", self._plan.checkpoint_location)
            )
            writer = writer.trigger(availableNow=True) if until_empty else writer.trigger(processingTime=interval)
            self.query = writer.start()
        except BaseException as error:
            self._release()
            if not isinstance(error, PySparkException):
                raise
            raise WaveFailed(f"Spark could not start the streaming query: {error}", txid=-1) from error

    def stop(self) -> bool:
        self._stop_requested.set()
        self._pause.close()
        if self._wave_thread == threading.get_ident():  # called by a listener, for which the wave waits
            threading.Thread(target=self.stop, name="anchorbolt-stop", daemon=True).start()
            return False
        if self.query is not None:
            with self.one_wave:
                self.query.stop()
        return True

    def pause(self) -> None:
        self._pause.begin()
        if self._wave_thread is None:  # else that thread looks for a pause when its wave has ended
            self._pause.cease()

    def wait_until_paused(self, timeout: float | None) -> bool:
        return self._pause.wait_until_ceased(timeout)

    def resume(self) -> None:
        self._pause.end()

    def wait(self) -> BaseException | None:
        assert self.query is not None
        failure: AnchorboltError | None = None
        try:
            self.query.awaitTermination()
        except Exception as error:  # StreamingQueryException, or an error of py4j if the JVM is lost
            failure = self._failure(error)
            failure.__cause__ = error
        else:
            self._pause.wait_until_over()  # with `until_empty`, the query ends by itself
        self._pause.close()
        with self.one_wave:  # a wave goes on for a moment after its JVM is lost, and uses the spout's storage
            pass
        self._release()
        if self._wave_failure is not None and not self._failed_with_the_jvm(failure):
            return self._wave_failure
        if self._stop_requested.is_set():
            return None
        try:
            # If a newer driver has taken over, Spark fails with an error that does not say so.
            self._spout.check_not_overtaken()
        except AnchorboltError as overtaken:
            overtaken.__cause__ = failure
            return overtaken
        return failure

    def _release(self) -> None:
        """Leave nothing of the query in Python or in the JVM. It does not run any more."""
        self._callback.release()
        forget_listeners(self._session)

    def _failed_with_the_jvm(self, ended: AnchorboltError | None) -> bool:
        """Return True if the query lost its JVM and the wave failed only because of that."""
        if ended is None or not isinstance(ended.__cause__, _JVM_LOST):
            return False
        failure = self._wave_failure
        return isinstance(failure, WaveFailed) or not isinstance(failure, AnchorboltError)

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Called by Spark for each micro-batch. An exception ends the query.

        In a pause the batch waits here: Spark has planned it, but runs no job for it, and does not limit the time.
        """
        while not self._begin_wave():
            self._pause.wait_until_over()
            if self._pause.is_closed:
                raise _StopRequested
        try:
            if self._spout.must_recover:  # a wave of the pump has failed behind its decision
                self._stop_requested.set()
                raise _StopRequested
            if self._pause.is_closed:
                raise _StopRequested
            self._run_batch(frame, batch_id)
        except _StopRequested:
            raise
        except BaseException as error:
            self._wave_failure = error
            raise
        finally:
            self._end_wave()

    def _begin_wave(self) -> bool:
        """Return whether this thread holds the lock now and may run its wave; not in a pause."""
        # `stop` holds the lock while it waits for this thread to end: waiting for the lock without end would deadlock.
        if not self.one_wave.acquire(timeout=_STOP_POLL_S):
            return False
        self._wave_thread = threading.get_ident()
        if self._pause.is_on:  # asked only now: `pause` asks for the thread after it has begun the pause
            self._end_wave()
            return False
        return True

    def _end_wave(self) -> None:
        self._wave_thread = None
        self.one_wave.release()
        self._pause.cease()

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        self._spout.bind_query(query_id)
        try:
            offsets = self._folder.read(f"offsets/{batch_id}") or b""
        except OSError as error:
            raise StateUnavailable(
                f"the offsets of batch {batch_id} cannot be read from the checkpoint location "
                f"{self._folder.location}: {error}. Make it readable, and start again."
            ) from error
        if local_path(self._folder.location) is not None and not self._folder.exists(_METADATA):
            raise WaveFailed(self._location_gone(), txid=self._spout.record.txid + 1)
        batch = Batch(query_id, batch_id, hashlib.sha256(offsets).hexdigest() if offsets else "")
        if self._spout.is_committed(batch):
            _log.info("batch %d is committed already and is skipped", batch_id)
            return
        txid = self._spout.record.txid + 1
        self._source_files.check(batch_id, offsets, txid)
        self._give_up_removed_spouts()
        self.batch = frame
        try:
            with nullcontext() if self._spouts is None else self._spouts.wave(self._spout):
                wave = self._spout.run_wave(batch)
        except WaveFailed as error:
            self._source_files.check(batch_id, offsets, txid, failed=True)  # missing files explain more
            if lost := explained_loss(error.message, txid - 1):
                raise WaveFailed(f"Spark cannot read batch {batch_id}: {lost}", txid=txid) from error
            raise
        except UnsupportedValue as error:
            if UNDECODED in error.message and (
                files := files_with_undecoded_text(self._session, self._source_files.checked)
            ):
                raise UnsupportedValue(f"{error.message} It is in {', '.join(files)}.") from error
            raise
        finally:
            self.batch = None
        report = summarise(wave, None if self._spouts is None else self._spouts.rich)
        if self.query is not None:  # None if the first wave ends before Spark has returned the query
            lag = self._lag.of(self.query, offsets)
            report = replace(report, source_offsets_behind=lag.offsets, source_files_waiting=lag.files)
        self._add(report, wave)

    def _give_up_removed_spouts(self) -> None:
        if not self._known.keeps_removed:
            return
        self._spout.check_not_overtaken()  # else this would overwrite what a newer driver has recorded
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
        if of_kafka := explained_failure(str(error), lambda: kafka_sources(self._frame, spouts)):
            return of_kafka
        return WaveFailed(f"the streaming query ended: {self._reason(error)}", txid=-1)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, _JVM_LOST):
            return (
                f"Spark's Java process is gone ({error}): it crashed, or was killed (by the kernel, if memory ran out)."
                " See its last output. Start again: the run resumes after the last committed wave."
            )
        text = str(error)
        if lost := explained_loss(text, self._spout.record.txid):
            return lost
        if damaged := _INCOMPLETE.search(text):
            return (
                f"the file {damaged[1]} of the checkpoint location is empty or incomplete, as after a loss of power or "
                "on a full disk. Restore the store and the checkpoint location from backups of one moment, as "
                "docs/failures/checkpoint-location.md says."
            )
        with suppress(OSError):  # a location that cannot be asked is not gone
            if not self._folder.exists(_METADATA):
                return self._location_gone()
        # The text continues with the query's whole plan.
        return text.partition("=== Streaming Query ===")[0].rstrip()

    def _location_gone(self) -> str:
        return (
            f"the checkpoint location {self._folder.location} was deleted or moved during the run. The state is "
            f"at txid {self._spout.record.txid}. Put the location back. If it is lost, start again with another "
            "one, as docs/failures/checkpoint-location.md says."
        )


class _StopRequested(Exception):
    """Raised in Spark's callback so that no further wave begins. Never leaves this module."""
