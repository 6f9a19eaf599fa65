"""Whether the files that a batch reads are all there. Spark itself runs a batch again without those that are gone.

Which files make a batch stands at the checkpoint location: `offsets/<batch>` has a line for each source, `{"logOffset":
n}` where it reads files, and `sources/<source>/<n>` names the files of n; every tenth is `<n>.compact`, which repeats
all before it. Both are as Spark's `FileStreamSource` writes them, in its version 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from anchorbolt.errors import WaveFailed
from anchorbolt.util.locations import Folder, local_path

_VERSION = b"v1"
_SHOWN = 3
_MOST_LOGS = 1000


class SourceFiles:
    """Looks for the files of each batch of one run. Nothing is said of other sources than files."""

    def __init__(self, folder: Folder, session: SparkSession) -> None:
        """Make the check of a run; `folder` is its checkpoint location."""
        self._folder = folder
        self._session = session
        self._ends: tuple[int, list[int | None]] = (-1, [])
        self._has_looked_far = False

    def check(self, batch_id: int, offsets: bytes, txid: int) -> None:
        """Refuse a batch that would be read without some of its files.

        A file that is there now was there when Spark planned the batch. Files on other file systems than the local one
        are looked for in the first batch of a run only: each look is a round trip.

        Args:
            batch_id: The batch.
            offsets: What `offsets/<batch_id>` holds.
            txid: The transaction, for the message.

        Raises:
            WaveFailed: Files are gone; the message names some.
        """
        ends = _log_offsets(offsets)
        if not any(end is not None for end in ends):
            return
        known, starts = self._ends
        if known != batch_id - 1:
            starts = _log_offsets(self._folder.read(f"offsets/{batch_id - 1}") or b"")
        files: list[str] = []
        for source, end in enumerate(ends):
            if end is not None:
                # Spark keeps the offsets of a hundred batches; without those before, the newest files are looked for.
                before = starts[source] if source < len(starts) else end - 1 if batch_id else None
                for number in range(max(-1 if before is None else before, end - _MOST_LOGS), end):
                    files += self._logged(source, number + 1)
        gone = [path for path in files if not self._is_there(path)]
        self._has_looked_far = True
        if gone and self._session.conf.get("spark.sql.files.ignoreMissingFiles", "false") != "true":
            more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
            raise WaveFailed(
                f"files of batch {batch_id} of the source are gone ({len(gone)} of {len(files)}): "
                f"{', '.join(gone[:_SHOWN])}{more}. Nothing of the batch is committed. Put them back and start again; "
                "to go on without their rows, put empty files in their place.",
                txid=txid,
            )
        self._ends = (batch_id, ends)

    def _logged(self, source: int, number: int) -> Iterator[str]:
        name = f"sources/{source}/{number}"
        data = self._folder.read(name) or self._folder.read(f"{name}.compact") or b""
        lines = data.splitlines()
        # The newest stand at the end, and there may be very many before them.
        while lines and lines[0] == _VERSION and len(lines) > 1:
            entry = _object(lines.pop())
            if entry.get("batchId") != number or "path" not in entry:
                return
            yield str(entry["path"])

    def _is_there(self, path: str) -> bool:
        local = local_path(path)
        if local is not None:
            return local.exists()
        if self._has_looked_far:
            return True
        jvm: Any = self._session._jvm
        found = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
        conf = self._session._jsparkSession.sessionState().newHadoopConf()
        return bool(found.getFileSystem(conf).exists(found))


def _log_offsets(offsets: bytes) -> list[int | None]:
    """Return where each source's log of files stands; None for a source of another kind."""
    lines = offsets.splitlines()
    if not lines or lines[0] != _VERSION:
        return []
    found: list[int | None] = []
    for line in lines[2:]:  # behind the version and the batch's metadata
        end = _object(line).get("logOffset")
        found.append(end if isinstance(end, int) else None)
    return found


def _object(line: bytes) -> dict[str, Any]:
    """Decode a line; empty where it is none of ours to judge: Spark reads it, too, and says so."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
