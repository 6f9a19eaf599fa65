"""The coordinator of `FilesTransactionalSpout`: lists the directory, and assigns its files to batches."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import translate
from stat import S_ISREG
from typing import Any

from anchorbolt.errors import ConfigError, SourceUnavailable, StateRegressed, TopologyError
from anchorbolt.spouts.transactional import TransactionalCoordinator
from anchorbolt.transactional.file_batches import File, Part, Position, Progress, next_batch
from anchorbolt.transactional.file_lines import COMPLETE, described_time
from anchorbolt.util.messages import counted, printable, shortened
from anchorbolt.util.retry import RetryPolicy

_SPOUT = "FilesTransactionalSpout"
_KEYS = {"directory", "parts", *Progress().values()}
_LISTED_S = 0.5  # for how long a listing is used at least
_LISTING_SHARE = 10  # a listing is used for so many times as long as it took
_TRIES = 3
_HIDDEN = ("_", ".")
_COPYING = "._COPYING_"  # of `hdfs dfs -get` and others, as Spark ignores


class FilesCoordinator(TransactionalCoordinator):
    """Begins a batch when the directory has files that were not taken.

    Its methods raise `ConfigError` if the directory does not exist at the first use, `SourceUnavailable` if it cannot
    be listed for `topology.message.timeout.secs`, `TopologyError` if the metadata belongs to another directory, and
    `StateRegressed` if files have changed or appeared out of order.
    """

    def __init__(
        self, directory: str, pattern: str, take_files: int, take_bytes: int | None, conf: Mapping[str, Any]
    ) -> None:
        self._directory = directory
        self._matches = re.compile(translate(pattern)).match
        self._take_files = take_files
        self._take_bytes = take_bytes
        self._retry = RetryPolicy(int(conf.get("topology.message.timeout.secs") or 30) * 1000)
        self._files: list[File] | None = None  # the last listing
        self._listed_until = 0.0
        self._is_idle = False  # nothing was untaken when it was made
        self._known: Mapping[str, int] = {}  # names and times of the last listing that had files
        self._last: Any = None

    def after(self, last_metadata: Any) -> None:
        self._last = last_metadata

    def is_ready(self) -> bool:
        progress = self._progress(self._last)
        return progress.rest is not None or next(self._untaken(progress), None) is not None

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> dict[str, Any]:
        progress = self._progress(previous_metadata)
        for _ in range(_TRIES):
            parts, after = next_batch(progress, self._untaken(progress), self._take_files, self._take_bytes)
            different = [part.name for part in parts if part.begin == 0 and not self._is_unchanged(part)]
            if not different:
                return {"directory": self._directory, "parts": [list(part) for part in parts], **after.values()}
            self._list(progress)
        raise StateRegressed(
            f"the file {self._path(different[0])!r} changes while it is listed. {COMPLETE}",
            expected="a complete file",
            found="a file that is being written",
        )

    def _progress(self, metadata: Any) -> Progress:
        if metadata is None:
            return Progress()
        if not isinstance(metadata, dict) or metadata.keys() != _KEYS or metadata["directory"] != self._directory:
            raise TopologyError(
                f"{_SPOUT}: the directory is {self._directory!r}, but the last batch has the metadata "
                f"{shortened(metadata, 200)}, as of another directory or another spout. Pass the directory that "
                "earlier runs had, as a link if it was moved; or give the topology another id to read all files."
            )
        return Progress.from_values(metadata)

    def _untaken(self, progress: Progress) -> Iterator[File]:
        """Return the files that no batch has taken, in order. Lists the directory again if the listing is old."""
        files, is_current = self._files, time.monotonic() < self._listed_until
        if files is not None and is_current and (self._is_idle or next(progress.untaken(files), None) is not None):
            return progress.untaken(files)
        files = self._list(progress)
        self._is_idle = next(progress.untaken(files), None) is None
        return progress.untaken(files)

    def _list(self, progress: Progress) -> list[File]:
        began = time.monotonic()
        files = self._retry.until_available(self._listing)
        ended = time.monotonic()
        self._check_taken(progress, files)
        self._check_order(progress, files)
        self._files = files
        if files:  # an empty directory may be one where nothing is mounted now
            self._known = {file.name: file.mtime_ns for file in files}
        self._listed_until = ended + max(_LISTED_S, _LISTING_SHARE * (ended - began))
        return files

    def _listing(self) -> list[File]:
        """Return the files of the directory, in order."""
        files = []
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    name = entry.name
                    if name.startswith(_HIDDEN) or name.endswith(_COPYING) or not self._matches(name):
                        continue
                    with suppress(FileNotFoundError):  # removed meanwhile, or a link to nothing
                        stat = entry.stat()
                        if S_ISREG(stat.st_mode):
                            files.append(File(stat.st_mtime_ns, self._text(name), stat.st_size))
        except (FileNotFoundError, NotADirectoryError) as error:
            problem = (
                f"{_SPOUT}: the directory {self._directory!r} does not exist on the driver. Create it, or mount it at "
                "the same path on the driver and on all executors."
            )
            raise (ConfigError if self._files is None else SourceUnavailable)(problem) from error
        except OSError as error:
            raise SourceUnavailable(
                f"{_SPOUT}: the directory {self._directory!r} cannot be listed on the driver: "
                f"{error.strerror or error}. Check the mount and the permissions."
            ) from error
        files.sort()
        return files

    def _text(self, name: str) -> str:
        if not name.isascii() and printable(name) != name:
            raise ConfigError(f"{_SPOUT}: the name of the file {self._path(name)!r} is not UTF-8. Rename it.")
        return name

    def _is_unchanged(self, part: Part) -> bool:
        try:
            stat = os.stat(self._path(part.name))
        except OSError:
            return False
        return (stat.st_size, stat.st_mtime_ns) == (part.size, part.mtime_ns)

    def _check_taken(self, progress: Progress, files: Iterable[File]) -> None:
        """Check that no taken file has another time now. Finds files of this run, and of the last batches before."""
        before = {**self._known, **{name: mtime_ns for mtime_ns, name in progress.recent}}
        for file in files:
            mtime_ns = before.get(file.name, file.mtime_ns)
            if mtime_ns != file.mtime_ns and progress.has_taken(Position(mtime_ns, file.name)):
                raise StateRegressed(
                    f"the file {self._path(file.name)!r} has changed after a batch has taken it. Give new content a "
                    "new name; if the content is the same, give the file its old modification time, such as by "
                    f"`touch -d {described_time(mtime_ns)}`. {COMPLETE}",
                    expected=described_time(mtime_ns),
                    found=described_time(file.mtime_ns),
                )

    def _check_order(self, progress: Progress, files: Sequence[File]) -> None:
        """Check that no file has appeared that would be missed because later ones were taken."""
        if progress.floor is None:
            return
        below = progress.count_below(files)
        late = [file.name for file in files[:below] if file.name not in self._known] if self._known else []
        if not late and below > progress.below:
            late = [file.name for file in files[:below]]
        if late:
            limit = f"{described_time(progress.floor.mtime_ns)} ({progress.floor.name!r})"
            raise StateRegressed(
                f"{_SPOUT}: {counted(len(late), 'file')} in {self._directory!r} may have appeared after files of a "
                f"later time were taken, and would be missed: {shortened(late, 300)}. Files up to {limit} were taken, "
                f"{progress.below:,} in all, and {below:,} such files are there now. Run `touch` on each of these "
                "files that has not been read, move the others to another directory, and start the topology again.",
                expected=f"at most {counted(progress.below, 'file')} up to {limit}",
                found=counted(below, "file"),
            )

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)
