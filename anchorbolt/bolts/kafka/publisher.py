"""Publishes the decided waves of one run of a `KafkaSink`: connects, checks the marker, sends, and retries.

The messages are read from the outbox in pieces.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar

from anchorbolt.bolts.kafka.marker import LostMarker, Marker, Patience, check_history, digest_of, is_sent
from anchorbolt.bolts.kafka.messages import Message, messages_in
from anchorbolt.bolts.sink import SinkFile, SinkRun
from anchorbolt.errors import AnchorboltError, PlatformError, SinkUnavailable, StateRegressed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import Folder, open_folder
from anchorbolt.util.retry import NO_RETRY

if TYPE_CHECKING:
    from anchorbolt.bolts.kafka.producer import KafkaConnection

_log = logging.getLogger("anchorbolt.bolts")

T = TypeVar("T")

REFRESH_S = 3600.0  # the marker is written again after this time without messages
_ROWS_READ = 5_000  # at once, from a row group of the outbox


class Publisher:
    """One run's connection to Kafka, and the last known marker. Thread-safe: calls wait for each other."""

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
        self._may_be_sent = False  # whether a wave after the marker may be in Kafka: Kafka did not answer its commit
        self._marked_at = time.monotonic()
        self._ended = threading.Event()

    def begin(self) -> None:
        """Fence off older drivers, and compare the marker with the state; write the first marker if there is none.

        Raises `StateRegressed` if Kafka has messages of waves that are unknown to the state, or if the marker of a wave
        that may have been sent is lost.
        """

        def begin(connection: KafkaConnection, wait: Patience) -> None:
            txid, pending = self._run.txid, self._run.pending
            if self._marker is None:
                self._mark(connection, self._first_marker(), (), wait)
            elif pending:
                self._is_sent(self._marker, txid, digest_of(pending))
            else:
                self._refuse_foreign(lambda marker: check_history(marker, txid), self._marker)

        self._connected(begin)
        threading.Thread(target=self._keep_marker, name="anchorbolt-kafka-marker", daemon=True).start()

    def publish(self, txid: int, files: Sequence[SinkFile], read: object = None) -> None:
        """Send a wave, unless the marker shows that it was sent."""
        digest = digest_of(files)

        def publish(connection: KafkaConnection, wait: Patience) -> None:
            if self._marker is None:
                raise self._lost(txid)
            if not self._is_sent(self._marker, txid, digest):
                self._mark(connection, Marker(txid + 1, digest), messages_of(txid, files, self._open_at), wait, txid)

        self._connected(publish)

    def publish_nothing(self, txid: int) -> None:
        """Do nothing: the marker of the last wave with messages is enough."""

    def refresh(self) -> None:
        """Write an old marker again, so that it does not expire. Never raises.

        If Kafka does not answer, the next call tries again.
        """
        with self._lock:
            if self._ended.is_set() or time.monotonic() < self._marked_at + REFRESH_S:
                return
            wait = Patience(NO_RETRY)
            try:
                connection = self._open(wait)
                if self._marker is not None:
                    self._mark(connection, self._marker, (), wait)
            except AnchorboltError as error:
                _log.debug("the marker of %s could not be written again: %s", self._identity, error)
                self._disconnect()

    def _keep_marker(self) -> None:
        while not self._ended.wait(REFRESH_S):
            self.refresh()

    def is_published(self, txid: int, file: SinkFile) -> bool:
        """Return whether the marker shows that the wave of a file was sent."""
        with self._lock:
            return self._marker is not None and self._marker.next_txid > txid

    def end_run(self) -> None:
        """Close the connection."""
        self._ended.set()
        with self._lock:
            self._disconnect()

    def _connected(self, act: Callable[[KafkaConnection, Patience], T]) -> T:
        """Call `act` with a connection, and again with a new one while Kafka does not answer.

        After any error, the next connection reads from the marker whether the wave was sent.
        """
        wait = Patience(self._run.retry)
        with self._lock:
            while True:
                try:
                    return act(self._open(wait), wait)
                except SinkUnavailable as error:
                    self._disconnect()
                    self._run.check_claim()  # raises a better error if a newer driver has taken over
                    if not wait.may_connect_again(error):
                        raise
                except StateRegressed:
                    self._disconnect()
                    self._run.check_claim()  # the marker may be of a newer driver
                    raise
                except BaseException:
                    self._disconnect()
                    raise

    def _open(self, wait: Patience) -> KafkaConnection:
        """Return the connection. A new connection fences off all others and reads the marker.

        `docs/decisions/kafka-marker.md` proves that no wave is sent twice, whatever two drivers do at the same time.
        """
        if self._connection is None:
            self._run.check_claim()  # a driver that was overtaken must not fence off its successor
            connection = self._connection = self._new_connection()
            found = connection.open(wait)
            self._run.check_claim()  # send only if this driver has the claim after it fenced off the others
            if found is not None:
                self._marker, self._may_be_sent = found, False
            elif self._may_be_sent:
                self._marker = None
            elif self._marker is not None:
                self._mark(connection, self._marker, (), wait)  # the marker expired; nothing was sent since
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
        wait: Patience,
        txid: int | None = None,  # None without messages
    ) -> None:
        def before_commit() -> None:
            if txid is not None:
                reach(FaultPoint.SINK_MESSAGES_SENT, self._run.component, txid=txid)
                self._may_be_sent = True

        connection.send(messages, marker, wait, before_commit=before_commit)
        self._marker, self._may_be_sent = marker, False
        self._marked_at = time.monotonic()

    def _first_marker(self) -> Marker:
        """Return the marker to write if Kafka has none. Raises `StateRegressed` if a marker was lost."""
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
        """Return the result of `judge`; add the next action to its error."""
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
    """Yield the messages of a wave, task by task, without reading whole files into memory.

    Raises `SinkUnavailable` if a file cannot be read now, and `StateRegressed` if it does not exist.
    """
    for file in sorted(files, key=lambda file: (file.task_index, file.number)):
        try:
            yield from _messages_of_file(txid, file, open_at)
        except OSError as error:
            raise SinkUnavailable(
                f"sink {file.component!r}: messages of txid {txid} cannot be read from the outbox ({file.path}): "
                f"{error}. Make the checkpoint location readable for the driver. The messages are decided; the next "
                "start sends them, before anything else."
            ) from error


def _messages_of_file(txid: int, file: SinkFile, open_at: Callable[[str], Folder]) -> Iterator[Message]:
    import pyarrow.parquet as pq

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
        # (`iter_batches` of the whole file would keep everything that it has read.)
        for group in range(content.num_row_groups):
            for batch in content.read_row_group(group).to_batches(_ROWS_READ):
                yield from messages_in([column.to_pylist() for column in batch.columns])


@contextmanager
def _seekable(stream: BinaryIO) -> Iterator[IO[bytes]]:
    """Return a seekable stream for Parquet's reader: the given stream, or a copy on the local disk."""
    if stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield copy
