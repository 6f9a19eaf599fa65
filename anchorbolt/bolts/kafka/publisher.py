"""Publishes the decided waves of one run of a `KafkaSink`: connects, judges the marker, sends, and tries again."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar

from anchorbolt.bolts.kafka.marker import LostMarker, Marker, check_history, digest_of, is_sent
from anchorbolt.bolts.kafka.messages import Message, messages_in
from anchorbolt.bolts.sink import SinkFile, SinkRun
from anchorbolt.errors import AnchorboltError, Fenced, PlatformError, SinkUnavailable, StateRegressed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.util.locations import Folder, open_folder
from anchorbolt.util.retry import NO_RETRY, Backoff

if TYPE_CHECKING:
    from anchorbolt.bolts.kafka.producer import KafkaConnection

_log = logging.getLogger("anchorbolt.bolts")

T = TypeVar("T")

REFRESH_S = 3600.0  # between two writes of the marker while there is nothing to send
_ROWS_READ = 5_000  # at once, from a row group of the outbox


class Publisher:
    """One run's connection to Kafka, and the marker as it is known. Thread-safe: calls wait for each other."""

    def __init__(
        self,
        run: SinkRun,
        *,
        servers: str,
        identity: str,  # the transactional.id, and the group of the marker
        topic: str,  # the marker's
        settings: Mapping[str, Any],
        lost_marker: LostMarker,
        open_at: Callable[[str], Folder] = open_folder,  # opens a folder of the outbox
    ) -> None:
        self._run = run
        self._open_at = open_at
        self._servers = servers
        self._identity = identity
        self._topic = topic
        self._settings = settings
        self._lost_marker = lost_marker
        self._lock = threading.RLock()
        self._connection: KafkaConnection | None = None
        self._marker: Marker | None = None
        self._marked_at = time.monotonic()

    def begin(self) -> None:
        """Fence off older drivers, and compare the marker with the state; write the first marker if there is none.

        Raises `StateRegressed` if Kafka has messages of waves that the state does not know, or if the marker of a wave
        that may have been sent is lost.
        """

        def begin(connection: KafkaConnection, wait: Backoff) -> None:
            txid, pending = self._run.txid, self._run.pending
            if self._marker is None:
                self._mark(connection, self._first_marker(), (), wait)
            elif pending:
                self._is_sent(self._marker, txid, digest_of(pending))
            else:
                self._refuse_foreign(lambda marker: check_history(marker, txid), self._marker)

        self._connected(begin)

    def publish(self, txid: int, files: Sequence[SinkFile], read: object = None) -> None:
        """Send a wave, unless the marker says that it was sent."""
        digest = digest_of(files)

        def publish(connection: KafkaConnection, wait: Backoff) -> None:
            if self._marker is None:
                raise self._lost(txid)
            if not self._is_sent(self._marker, txid, digest):
                self._mark(connection, Marker(txid + 1, digest), messages_of(txid, files, self._open_at), wait, txid)

        self._connected(publish)

    def publish_nothing(self, txid: int) -> None:
        """Write the marker again once in a while, so that it does not expire. If Kafka does not answer, that waits."""
        with self._lock:
            if time.monotonic() < self._marked_at + REFRESH_S:
                return
            self._marked_at, wait = time.monotonic(), NO_RETRY.backoff()
            try:
                connection = self._open(wait)
                if self._marker is not None:
                    check_history(self._marker, txid)
                self._mark(connection, Marker(txid + 1), (), wait)
            except AnchorboltError as error:
                _log.debug("the marker of %s could not be written again: %s", self._identity, error)
                self._disconnect()

    def is_published(self, txid: int, file: SinkFile) -> bool:
        """Return whether the marker says that the wave of a file was sent."""
        with self._lock:
            return self._marker is not None and self._marker.next_txid > txid

    def end_run(self) -> None:
        """Close the connection."""
        with self._lock:
            self._disconnect()

    def _connected(self, act: Callable[[KafkaConnection, Backoff], T]) -> T:
        """Call `act` with a connection, and again with a new one while Kafka does not answer.

        Whatever ended a connection, the next one reads from the marker whether the wave was sent.
        """
        wait = self._run.retry.backoff()
        with self._lock:
            while True:
                try:
                    return act(self._open(wait), wait)
                except (SinkUnavailable, Fenced) as error:
                    self._disconnect()
                    self._run.check_claim()  # the better explanation, if a newer driver has taken over
                    if not wait.sleep_or_give_up(SinkUnavailable(error.message)):
                        raise
                except BaseException:
                    self._disconnect()
                    raise

    def _open(self, wait: Backoff) -> KafkaConnection:
        """Return the connection; a new one has fenced off all others, and knows the marker."""
        if self._connection is None:
            self._run.check_claim()  # a driver that was overtaken must not fence off its successor
            self._connection = self._new_connection()
            self._marker = self._connection.open(wait)
        return self._connection

    def _new_connection(self) -> KafkaConnection:
        try:
            from anchorbolt.bolts.kafka.producer import KafkaConnection
        except ImportError as error:
            raise PlatformError(
                f"sink {self._run.component!r}: Kafka's client is not installed ({error}). Install it where the driver "
                "runs: pip install 'anchorbolt[kafka]'."
            ) from error
        return KafkaConnection(self._servers, self._identity, self._topic, self._settings)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _mark(
        self,
        connection: KafkaConnection,
        marker: Marker,
        messages: Iterator[Message] | tuple[()],
        wait: Backoff,
        txid: int | None = None,  # None without messages
    ) -> None:
        def before_commit() -> None:
            if txid is not None:
                reach(FaultPoint.SINK_MESSAGES_SENT, self._run.component, txid=txid)

        self._marked_at = time.monotonic()
        connection.send(messages, marker, wait, before_commit=before_commit)
        self._marker = marker

    def _first_marker(self) -> Marker:
        """Return the marker to write because there is none. Raises `StateRegressed` if one was lost."""
        txid, pending = self._run.txid, self._run.pending
        if not pending or self._lost_marker == "skip":
            return Marker(txid + 1, digest_of(pending) if pending else "")
        if self._lost_marker == "send":
            return Marker(txid)
        raise self._lost(txid)

    def _lost(self, txid: int) -> StateRegressed:
        expected, found = f"a marker of txid {txid - 1} or {txid}", "none"
        return StateRegressed(
            f"sink {self._run.component!r}: txid {txid} is decided, but Kafka at {self._servers} has no marker in the "
            f"group {self._identity!r} that says whether its messages were sent: the group was deleted, or the run was "
            "down for longer than offsets.retention.minutes of the brokers. Nothing was sent now. Look into the topic, "
            "and start once with lost_marker='skip' of the sink if the messages are there, or 'send' if not.",
            expected=expected,
            found=found,
        )

    def _is_sent(self, marker: Marker, txid: int, digest: str) -> bool:
        return self._refuse_foreign(lambda found: is_sent(found, txid, digest), marker)

    def _refuse_foreign(self, judge: Callable[[Marker], T], marker: Marker) -> T:
        """Return the judgement; say in its error how to go on."""
        try:
            return judge(marker)
        except StateRegressed as error:
            raise StateRegressed(
                f"sink {self._run.component!r}: {error.message} Restore the store and the checkpoint location from "
                f"backups of one moment; or, to start over, delete the consumer group {self._identity!r} at "
                f"{self._servers} (kafka-consumer-groups --delete --group), and expect messages twice in the topic.",
                expected=error.expected,
                found=error.found,
            ) from None


def messages_of(
    txid: int, files: Sequence[SinkFile], open_at: Callable[[str], Folder] = open_folder
) -> Iterator[Message]:
    """Yield the messages of a wave, task by task, without reading whole files into memory."""
    import pyarrow.parquet as pq

    for file in sorted(files, key=lambda file: file.task_index):
        folder, _, name = file.path.rpartition("/")
        try:
            stream = open_at(folder).open(name)
        except FileNotFoundError as error:
            raise StateRegressed(
                f"sink {file.component!r}: messages of txid {txid} are neither in Kafka nor in the outbox "
                f"({file.path}). Something else changed the checkpoint location; restore it.",
                expected=file.path,
                found="nothing",
            ) from error
        with stream, _seekable(stream) as seekable, pq.ParquetFile(seekable) as content:
            # (`iter_batches` of the whole file keeps all that it has read.)
            for group in range(content.num_row_groups):
                for batch in content.read_row_group(group).to_batches(_ROWS_READ):
                    yield from messages_in([column.to_pylist() for column in batch.columns])


@contextmanager
def _seekable(stream: BinaryIO) -> Iterator[IO[bytes]]:
    """Return a stream in which Parquet's reader can move: the given one, or a copy on this machine's disk."""
    if stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield copy
