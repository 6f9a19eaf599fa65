"""`FilesTransactionalSpout`, whose tasks read the lines of text files; no Spark job reads them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import repeat
from stat import S_ISREG
from typing import Any

from anchorbolt.bolts.batch import BatchOutputCollector
from anchorbolt.errors import ConfigError, SourceUnavailable, StateRegressed, TopologyError
from anchorbolt.files import local_path
from anchorbolt.spouts.redis_arguments import names, refusal
from anchorbolt.spouts.transactional import TransactionalCoordinator, TransactionalEmitter, TransactionalSpout
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer, wrong_fields
from anchorbolt.transactional.file_batches import MOST_FILES, Part, Progress, next_batch, share_of
from anchorbolt.transactional.file_lines import COMPLETE, check_file, lines_of, touched
from anchorbolt.util.messages import counted, shortened
from anchorbolt.util.retry import RetryPolicy

_LISTED_S = 0.5  # how long a listing is used
_LISTING_SHARE = 10  # or so many times as long as the listing took


class FilesTransactionalSpout(TransactionalSpout):
    """Emits the lines of the text files in a directory, in batches that are identical in each try.

    Each task reads an equal share of a batch's bytes. The order of the lines of a batch is not kept between tasks.

    The directory must be at the same path on the driver and on all executors: local, or shared, as by NFS. Files must
    not change once they appear: write a file elsewhere on the file system, or under a name that begins with `_` or `.`,
    and rename it when it is complete. Keep a file until its batches have committed. Each file needs a new name.

    Files are taken in the order of their modification time, then name. A file that is older than the last 300 that were
    taken is never read. If the directory has more such files than were taken, or if a file is not as it was, the run
    stops with `StateRegressed`. Files of subdirectories are not read, and files are not decompressed.
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
            pattern: Read only files whose name matches, as with `fnmatch`, and does not begin with `_` or `.`.
            take_files: The maximum number of files in a batch, at most 500.
            take_bytes: The maximum number of bytes in a batch. A larger file is divided between batches. None means no
                limit: then each batch has `take_files` whole files, while there are as many.
            decode: Whether lines are decoded as UTF-8, or stay bytes. A line that is not UTF-8 fails the batch.
            attempt_field: Name of the field for the attempt, the first value of each tuple.

        Raises:
            TopologyError: An argument is invalid.
        """
        spout = type(self).__name__
        path = local_path(os.fspath(directory)) if directory and isinstance(directory, str | os.PathLike) else None
        if path is None:
            advice = "Pass the path of a directory; read other file systems with a SparkTransactionalSpout."
            raise refusal(spout, "directory", directory, advice)
        self.fields = names(spout, "fields", fields)
        problem = wrong_fields(f"{spout}(…, [", (attempt_field, *self.fields))
        if problem:
            raise TopologyError(f"{spout}: {problem} {shortened(attempt_field)} is the field for the attempt.")
        if len(self.fields) != 1:
            raise refusal(spout, "fields", fields, "Pass one name, of the field for the line.")
        if not isinstance(pattern, str) or not pattern or "/" in pattern:
            raise refusal(spout, "pattern", pattern, "Pass a pattern of file names, such as '*.txt'.")
        if type(take_files) is not int or not 1 <= take_files <= MOST_FILES:
            raise refusal(spout, "take_files", take_files, f"Pass a whole number from 1 to {MOST_FILES}.")
        if take_bytes is not None and (type(take_bytes) is not int or take_bytes < 1):
            raise refusal(spout, "take_bytes", take_bytes, "Pass a whole number, at least 1, or None.")
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
        return _FilesCoordinator(self, conf)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionalEmitter:
        """Return the emitter of a task, which reads its share of each batch."""
        tasks = len(context.get_component_tasks(context.this_component_id))
        return _FilesEmitter(self, context.this_task_index, tasks)


class _FilesCoordinator(TransactionalCoordinator):
    """Begins a batch when the directory has files that were not taken."""

    def __init__(self, spout: FilesTransactionalSpout, conf: Mapping[str, Any]) -> None:
        self._spout = spout
        self._directory = spout.directory
        self._retry = RetryPolicy(int(conf.get("topology.message.timeout.secs") or 30) * 1000)
        self._files: list[Part] | None = None  # the last listing
        self._listed_until = 0.0
        self._last: Any = None

    def after(self, last_metadata: Any) -> None:
        self._last = last_metadata

    def is_ready(self) -> bool:
        progress = self._progress(self._last)
        return progress.rest is not None or any(progress.untaken(self._listed(progress)))

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> dict[str, Any]:
        progress = self._progress(previous_metadata)
        untaken = progress.untaken(self._listed(progress))
        parts, after = next_batch(progress, untaken, self._spout.take_files, self._spout.take_bytes)
        for part in parts:
            if part.begin == 0:  # what is stored of a file has to stay as it is
                check_file(f"{self._directory}/{part.name}", part, "since it was listed. Start the topology again.")
        return {"directory": self._directory, "parts": parts, "progress": after}

    def _progress(self, metadata: Any) -> Progress:
        if metadata is None:
            return Progress()
        if not isinstance(metadata, dict) or metadata.get("directory") != self._directory:
            raise TopologyError(
                f"FilesTransactionalSpout: the directory is {self._directory!r}, but the last batch has the metadata "
                f"{shortened(metadata, 200)}, as of another directory or another spout. Pass the directory of earlier "
                "runs, as a link if it was moved; or give the topology another id to read all files."
            )
        return Progress(*metadata["progress"])

    def _listed(self, progress: Progress) -> list[Part]:
        """Return the files of the directory, in order. Lists it again if the last listing is old."""
        began = time.monotonic()
        if self._files is None or began >= self._listed_until:
            files = self._retry.until_available(self._listing)
            self._check_taken(progress, files)
            self._files, ended = files, time.monotonic()
            self._listed_until = ended + max(_LISTED_S, _LISTING_SHARE * (ended - began))
        return self._files

    def _listing(self) -> list[Part]:
        files = []
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if fnmatchcase(entry.name, self._spout.pattern) and not entry.name.startswith(("_", ".")):
                        with suppress(FileNotFoundError):  # removed meanwhile, or a link to nothing
                            stat = entry.stat()
                            if S_ISREG(stat.st_mode):
                                files.append(Part(stat.st_mtime_ns, entry.name, stat.st_size, 0, stat.st_size))
        except OSError as error:
            is_wrong = self._files is None and isinstance(error, FileNotFoundError | NotADirectoryError)
            raise (ConfigError if is_wrong else SourceUnavailable)(
                f"FilesTransactionalSpout: the directory {self._directory!r} cannot be listed on the driver: "
                f"{error.strerror or error}. Mount it at the same path on the driver and on all executors, and check "
                "its permissions."
            ) from error
        return sorted(files)

    def _check_taken(self, progress: Progress, files: Sequence[Part]) -> None:
        """Check that taken files have not changed, and that no file would be missed because later ones were taken."""
        recent = {name: mtime_ns for mtime_ns, name in progress.recent}
        for now, name, *_ in files:
            before = recent.get(name, now)
            if before != now:
                raise StateRegressed(
                    f"the file {name!r} in {self._directory!r} has changed after a batch has taken it. Give new "
                    f"content a new name. If the content is the same, run `touch -d {touched(before)}`. {COMPLETE}",
                    expected=touched(before),
                    found=touched(now),
                )
        below, limit = progress.count_below(files), f"{touched(progress.floor[0])} ({progress.floor[1]!r})"
        if below > progress.below:
            raise StateRegressed(
                f"{counted(below - progress.below, 'file')} in {self._directory!r} may have appeared after files of a "
                f"later time were taken, and would be missed. Files up to {limit} were taken, {progress.below:,} in "
                f"all, and {below:,} such files are there now: {shortened([file.name for file in files[:below]], 300)}."
                " Run `touch` on each of them that has not been read, move the others to another directory, and start "
                "the topology again.",
                expected=f"at most {counted(progress.below, 'file')} up to {limit}",
                found=counted(below, "file"),
            )


class _FilesEmitter(TransactionalEmitter):
    def __init__(self, spout: FilesTransactionalSpout, task: int, tasks: int) -> None:
        self._spout = spout
        self._task = task
        self._tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchOutputCollector) -> None:
        emit = collector.emit
        for part in share_of([Part(*each) for each in metadata["parts"]], self._task, self._tasks):
            for lines in lines_of(self._spout.directory, part, self._spout.decode):
                for values in zip(repeat(attempt), lines):
                    emit(values)
