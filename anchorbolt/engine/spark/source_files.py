"""Checks that all files of a batch still exist. Spark itself replays a batch silently without its missing files.

The checkpoint location names the files: `offsets/<batch>` has one line per source, `{"logOffset": n}` for a source of
files, and `sources/<source>/<n>` lists the files of n. Every tenth list is `<n>.compact`, which repeats all earlier
ones. Spark's `FileStreamSource` writes them in its version 1. In the offsets of version 1 a source is the number of its
line; in those of version 2 its name stands before the offset.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from anchorbolt.errors import WaveFailed
from anchorbolt.util.locations import Folder, local_path
from anchorbolt.util.messages import shortened

_VERSION = b"v1"
_NAMED_VERSION = b"v2"
_MOST_LOGS = 1000


class SourceFiles:
    """Checks the files of each batch of one run; `folder` is its checkpoint location. Ignores other sources."""

    def __init__(self, folder: Folder, session: SparkSession) -> None:
        self._folder = folder
        self._session = session
        self._ends: tuple[int, dict[str, int | None]] = (-1, {})
        self._checked_remote = False

    def check(self, batch_id: int, offsets: bytes, txid: int) -> None:
        """Raise `WaveFailed` if files of a batch are missing; `offsets` is the content of `offsets/<batch_id>`.

        A file that exists now existed when Spark planned the batch. Files that are not on the local file system are
        checked only in the first batch of a run, because each check is a round trip.
        """
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
        gone = [path for path in files if not self._exists(path)]
        self._checked_remote = True
        if gone and self._session.conf.get("spark.sql.files.ignoreMissingFiles", "false") != "true":
            raise WaveFailed(
                f"files of batch {batch_id} of the source are gone ({len(gone)} of {len(files)}): "
                f"{shortened(gone, 300)}. Nothing of the batch is committed. Put the files back and start "
                "again; to continue without their rows, put empty files in their place.",
                txid=txid,
            )
        self._ends = (batch_id, ends)

    def _logged(self, source: str, number: int) -> Iterator[str]:
        name = f"sources/{source}/{number}"
        data = self._folder.read(name) or self._folder.read(f"{name}.compact") or b""
        lines = data.splitlines()
        # The newest entries are at the end, and there may be very many before them.
        while lines and lines[0] == _VERSION and len(lines) > 1:
            entry = _object(lines.pop())
            if entry.get("batchId") != number or "path" not in entry:
                return
            yield str(entry["path"])

    def _exists(self, path: str) -> bool:
        local = local_path(path)
        if local is not None:
            return local.exists()
        if self._checked_remote:
            return True
        jvm: Any = self._session._jvm
        found = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
        conf = self._session._jsparkSession.sessionState().newHadoopConf()
        return bool(found.getFileSystem(conf).exists(found))


def _log_offsets(offsets: bytes) -> dict[str, int | None]:
    """Return the log offset of each source; None for a source that does not read files."""
    version, *lines = offsets.splitlines() or [b""]
    parts: list[tuple[str, bytes]] = []
    if version == _VERSION:
        parts = [(str(number), line) for number, line in enumerate(lines[1:])]  # after the batch's metadata
    elif version == _NAMED_VERSION:
        named = (line.partition(b":") for line in lines[1:])
        parts = [(name.decode(errors="replace"), offset) for name, _, offset in named]
    ends = ((source, _object(offset).get("logOffset")) for source, offset in parts)
    return {source: end if isinstance(end, int) else None for source, end in ends}


def _object(line: bytes) -> dict[str, Any]:
    """Decode a line; return an empty dict if it is malformed: Spark reads it, too, and reports that."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
