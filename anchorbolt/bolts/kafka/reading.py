"""Reads the messages of a decided wave from the outbox, on the driver, in pieces."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, BinaryIO

from anchorbolt.bolts.kafka.messages import Message, messages_in
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.errors import SinkUnavailable, StateRegressed
from anchorbolt.files import Folder, open_folder

_ROWS_READ = 5_000  # at once, from a row group of the outbox


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
