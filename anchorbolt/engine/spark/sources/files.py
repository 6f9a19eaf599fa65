"""Checks that all files of a batch exist and that Spark reads each once; finds files that are not UTF-8.

Spark itself replays a batch without its missing files, and reports nothing.

The checkpoint location names the files: `offsets/<batch>` has one line per source, `{"logOffset": n}` for a source of
files, and `sources/<source>/<n>` lists the files of n. Every tenth list is `<n>.compact`, which repeats all earlier
ones. Spark's `FileStreamSource` writes them in its version 1.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as spark_functions

from anchorbolt.engine.spark.sources.offset_log import offsets_of
from anchorbolt.errors import WaveFailed
from anchorbolt.files import Folder, local_path
from anchorbolt.files.hadoop.hadoop_errors import hadoop_errors
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.util.messages import shortened

_log = logging.getLogger("anchorbolt.engine")

_VERSION = b"v1"
_MOST_LOGS = 1000
_END_BYTES = 1 << 16
_MOST_NAMED = 3  # files with text that is not UTF-8
_GLOB = re.compile(r"([\[\]{}*?\\])")  # as in `SparkHadoopUtil.isGlobPath`

_MOST_ASKED_EACH = 16


class SourceFiles:
    """Checks the files of each batch of one run; `folder` is its checkpoint location. Ignores other sources."""

    def __init__(self, folder: Folder, session: SparkSession) -> None:
        self._folder = folder
        self._session = session
        self._ends: tuple[int, dict[str, int | None]] = (-1, {})
        self._checked_remote = False
        self.checked: list[str] = []  # the files of the last checked batch, as Spark's log names them

    def check(self, batch_id: int, offsets: bytes, txid: int, *, failed: bool = False) -> None:
        """Raise `WaveFailed` if files of a batch are missing or would be read twice.

        `offsets` is the content of `offsets/<batch_id>`. Remote files are checked only in the first batch of a run, and
        if the batch has `failed`: Spark has just planned any other batch, so its files exist.
        """
        self.checked = []
        ends = _log_offsets(offsets)
        if not any(end is not None for end in ends.values()):
            return
        known, starts = self._ends
        if known != batch_id - 1:
            starts = _log_offsets(self._folder.read(f"offsets/{batch_id - 1}") or b"")
        files: list[str] = []
        for source, end in ends.items():
            if end is not None:
                # Spark keeps the offsets of the last 100 batches. If older ones are gone, check only the newest files.
                before = starts.get(source, end - 1 if batch_id else None)
                for number in range(max(-1 if before is None else before, end - _MOST_LOGS), end):
                    files += self._logged(source, number + 1)
        self.checked = files
        paths = {file: local_path(unquote(file)) for file in files}  # Spark logs them with %20 for a space
        gone = [file for file, path in paths.items() if path is not None and not path.exists()]
        if failed or not self._checked_remote:
            gone += self._missing_remote([file for file, path in paths.items() if path is None])
        self._checked_remote = True
        if gone and self._session.conf.get("spark.sql.files.ignoreMissingFiles", "false") != "true":
            raise WaveFailed(
                f"files of batch {batch_id} of the source are gone ({len(gone)} of {len(files)}): "
                f"{shortened(gone, 300)}. Nothing of the batch is committed. Put the files back and start "
                "again; to continue without their rows, put empty files in their place.",
                txid=txid,
            )
        check_read_once(self._session, files, batch_id, txid)
        self._ends = (batch_id, ends)

    def _logged(self, source: str, number: int) -> list[str]:
        """Return the files of one list, the newest first."""
        name = f"sources/{source}/{number}"
        data = self._folder.read(name)
        if data is not None:
            return _entries(data.splitlines()[1:], number)[0] if data.startswith(_VERSION) else []
        # The newest entries are at the end, and there may be very many before them.
        size = _END_BYTES
        while True:
            end = self._folder.read_end(f"{name}.compact", size) or b""
            files, is_done = _entries(end.splitlines()[1:], number)  # without the version line or a partial line
            if is_done or len(end) < size:
                return files
            size *= 8

    def _missing_remote(self, files: list[str]) -> list[str]:
        if not files:
            return []
        try:
            return missing_files(self._session, files)
        except OSError as error:  # Spark reads the batch right after this, and reports more
            _log.warning("whether the files of the source are all there cannot be checked: %s", error)
            return []


def _entries(lines: list[bytes], number: int) -> tuple[list[str], bool]:
    """Return the files of list `number` at the end of some lines, and whether another list comes before it."""
    files: list[str] = []
    for line in reversed(lines):
        entry = _object(line)
        if entry.get("batchId") != number or "path" not in entry:
            return files, True
        files.append(str(entry["path"]))
    return files, False


def _log_offsets(offsets: bytes) -> dict[str, int | None]:
    """Return the log offset of each source; None for a source that does not read files."""
    ends = ((source, _object(offset).get("logOffset")) for source, offset in offsets_of(offsets).items())
    return {source: end if isinstance(end, int) else None for source, end in ends}


def _object(line: bytes) -> dict[str, Any]:
    """Decode a line; return an empty dict if it is malformed: Spark reads it, too, and reports that."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def check_read_once(session: SparkSession, files: Sequence[str], batch_id: int, txid: int) -> None:
    """Raise `WaveFailed` if Spark is about to read files of a batch more than once.

    For each file with a path like a pattern, Spark's file source reads all files of the batch once more. It still reads
    each file once if the option `recursiveFileLookup` is set, or if the folder has partition columns.

    Called on the thread on which Spark runs the batch.

    Args:
        session: The session.
        files: All files of the batch, as Spark logs them: with `%5B` for `[`.
        batch_id: The batch.
        txid: Its wave.
    """
    patterns = [path for path in map(unquote, files) if _GLOB.search(path)]
    if not patterns or len(files) < 2:
        return
    if _reads_each_once(session):
        return
    raise WaveFailed(
        f"Spark would read files of batch {batch_id} of the source more than once: {len(patterns)} of its {len(files)} "
        f"paths have one of [ ] {{ }} * ? \\: {shortened(patterns, 300)}. Nothing of the batch is committed. Leave the "
        "files where they are, set the option recursiveFileLookup=true of the spout's source, with which Spark reads "
        "each file once, and start again. See docs/failures/source.md.",
        txid=txid,
    )


def _reads_each_once(session: SparkSession) -> bool:
    """Return True if the current batch of this thread's query reads each file once; False if that is unknown."""
    try:
        query: Any = session.streams.get(session.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
        plan = query._jsq.streamingQuery().lastExecution().analyzed().collectLeaves()
        relations = [plan.apply(number) for number in range(plan.length())]
        files = Counter(
            file
            for leaf in relations
            if leaf.getClass().getSimpleName() == "LogicalRelation"
            for file in leaf.relation().location().inputFiles()
        )
    except (Py4JError, TypeError, AttributeError):  # another version of Spark, or no query runs
        return False
    return set(files.values()) == {1}


def files_with_undecoded_text(session: SparkSession, files: Sequence[str]) -> list[str]:
    """Return up to three of these files that have a line which is not UTF-8; empty if none is found.

    Files in other formats than text have no lines, and are seldom found.
    """
    if not files:
        return []
    paths = [_GLOB.sub(r"\\\1", unquote(file)) for file in files]
    try:
        lines = session.read.text(paths).select("value", spark_functions.input_file_name().alias("file"))
        bad = lines.where(~spark_functions.is_valid_utf8("value")).select("file").distinct().limit(_MOST_NAMED)
        return sorted(unquote(row["file"]) for row in bad.collect())
    except PySparkException as error:
        _log.info("the files of the batch cannot be searched for text that is not UTF-8: %s", error)
        return []


def missing_files(session: SparkSession, uris: Iterable[str]) -> list[str]:
    """Return the files that do not exist. Raises `OSError` if a file system does not answer.

    If many files are in one folder, that folder is listed once, and the list stays in the JVM.

    Args:
        session: Its Hadoop configuration is used.
        uris: The files in Spark's log format: with `%20` for a space.
    """
    hadoop = Hadoop(session)
    by_folder: dict[str, list[str]] = {}
    for uri in uris:
        by_folder.setdefault(uri.rpartition("/")[0], []).append(uri)
    gone: list[str] = []
    for folder, files in by_folder.items():
        paths = [unquote(each) for each in files]
        with hadoop_errors():
            fs = hadoop.file_system(paths[0])
            if len(paths) <= _MOST_ASKED_EACH:
                gone += [path for path in paths if not fs.exists(hadoop.path(path))]
            else:
                gone += _missing_in(hadoop, fs, unquote(folder), paths)
    return gone


def _missing_in(hadoop: Hadoop, fs: Any, folder: str, paths: Sequence[str]) -> list[str]:
    try:
        with hadoop_errors():
            there = hadoop.listed(fs.listStatus(hadoop.path(folder)))
    except FileNotFoundError:
        return list(paths)
    return hadoop.without(paths, there)
