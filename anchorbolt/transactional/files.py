"""`FilesTransactionalSpout`, whose tasks read the lines of text files; no Spark job reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.files import local_path
from anchorbolt.spouts.redis_arguments import names, refusal
from anchorbolt.spouts.transactional import TransactionalCoordinator, TransactionalEmitter, TransactionalSpout
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer, wrong_fields
from anchorbolt.transactional.file_batches import MOST_FILES, Part, share_of
from anchorbolt.transactional.file_coordinator import FilesCoordinator
from anchorbolt.transactional.file_lines import byte_lines, text_lines
from anchorbolt.util.messages import shortened


class FilesTransactionalSpout(TransactionalSpout):
    """Emits the lines of the text files in a directory, in batches that are identical in each try.

    A batch is a list of files, or of ranges of their bytes. Each task reads an equal share of the bytes, and so several
    tasks read parts of a large file. A line belongs to the range of its first byte. The order of the lines of a batch
    is not kept between tasks.

    Files must not change once they appear, as for Spark's source of files. Write a file elsewhere on the file system,
    or under a name that begins with `_` or `.`, and rename it when it is complete. Keep a file until its batches have
    committed. If it is gone or has changed before, the run stops with `StateRegressed`. Each file needs a new name.

    Files are taken in the order of their modification time, then name. So a new file must not be older than files that
    were taken: the topology stores only the time and name up to which all files were taken, and the positions of the
    last 500 files. An older file than these is never read. A running topology stops with `StateRegressed` when such a
    file appears. At a start it is found only if more old files are there than were ever taken.

    The directory must be at the same path on the driver and on all executors: local, or shared, as by NFS. Files of
    subdirectories are not read, and files are not decompressed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        fields: Sequence[str] = ("line",),
        *,
        pattern: str = "*",
        take_files: int = MOST_FILES,
        take_bytes: int | None = 64 << 20,
        decode: bool = True,
        attempt_field: str = "tx",
    ) -> None:
        """Create a spout. Reads nothing yet.

        Args:
            directory: Path of the directory, or its `file:` URI. A relative path starts at the current directory.
            fields: The name of the field for the line.
            pattern: Read only files whose name matches, as with `fnmatch`. Files that are hidden, or whose name begins
                with `_` or ends with `._COPYING_`, are never read.
            take_files: The maximum number of files in a batch, at most 1,000. A batch has fewer if their names are very
                long.
            take_bytes: The maximum number of bytes in a batch. A larger file is divided between batches. None means no
                limit: then each batch has `take_files` whole files, while there are as many.
            decode: Whether lines are decoded as UTF-8, or stay bytes. A line that is not UTF-8 fails the batch.
            attempt_field: Name of the field for the attempt, the first value of each tuple.

        Raises:
            TopologyError: An argument is invalid.
        """
        spout = type(self).__name__
        if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
            raise refusal(spout, "directory", directory, "Pass the path of a directory.")
        path = local_path(os.fspath(directory))
        if path is None:
            raise refusal(
                spout,
                "directory",
                directory,
                "Pass a path that is mounted on the driver and on all executors. Read other file systems with a "
                "SparkTransactionalSpout.",
            )
        self.fields = names(spout, "fields", fields)
        problem = wrong_fields(f"{spout}(…, [", (attempt_field, *self.fields))
        if problem:
            raise TopologyError(f"{spout}: {problem} {shortened(attempt_field)} is the field for the attempt.")
        if len(self.fields) != 1:
            raise refusal(spout, "fields", fields, "Pass one name, of the field for the line.")
        if not isinstance(pattern, str) or not pattern or "/" in pattern:
            raise refusal(spout, "pattern", pattern, "Pass a pattern of file names, such as '*.txt'.")
        if type(take_files) is not int or not 1 <= take_files <= MOST_FILES:
            raise refusal(spout, "take_files", take_files, f"Pass a whole number from 1 to {MOST_FILES:,}.")
        if take_bytes is not None and (type(take_bytes) is not int or take_bytes < 1):
            raise refusal(spout, "take_bytes", take_bytes, "Pass a whole number, at least 1, or None.")
        if type(decode) is not bool:
            raise refusal(spout, "decode", decode, "Pass True or False.")
        self.directory = os.path.abspath(path)
        self.pattern = pattern
        self.take_files = take_files
        self.take_bytes = take_bytes
        self.decode = decode
        self.attempt_field = attempt_field

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream: the field for the attempt, and the field for the line."""
        declarer.declare(self.attempt_field, *self.fields)

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionalCoordinator:
        """Return the coordinator, which lists the directory on first use."""
        return FilesCoordinator(self.directory, self.pattern, self.take_files, self.take_bytes, conf)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionalEmitter:
        """Return the emitter of a task, which reads its share of each batch."""
        tasks = len(context.get_component_tasks(context.this_component_id))
        return _FilesEmitter(Path(self.directory), context.this_task_index, tasks, self.decode)


class _FilesEmitter(TransactionalEmitter):
    def __init__(self, directory: Path, task: int, tasks: int, decode: bool) -> None:
        self._directory = directory
        self._task = task
        self._tasks = tasks
        self._decode = decode

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchOutputCollector) -> None:
        emit = collector.emit
        for part in share_of([Part(*each) for each in metadata["parts"]], self._task, self._tasks):
            read = text_lines if self._decode else byte_lines
            for lines in read(self._directory, part):
                for values in zip(repeat(attempt), lines):
                    emit(values)
