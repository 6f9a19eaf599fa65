"""Measures how far a streaming query is behind its sources, if they report that to Spark."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.engine.spark.sources.known import source_name
from anchorbolt.engine.spark.sources.offset_log import offsets_of

_log = logging.getLogger("anchorbolt.engine")

_CLASS = "FileStreamSource"
_UNREAD = "unreadFiles"
_LISTED_ONCE = "allFilesForTriggerAvailableNow"
_has_failed = False


_BETWEEN_LOOKS_S = 1.0  # reading the progress takes several calls to the JVM, too slow after each short wave

ALL_SPOUTS = ""
"""The name for the lag of all sources together, if a spout has several: Spark does not assign sources to spouts."""


def waiting_files(query: StreamingQuery) -> Sequence[int | None]:
    """Return how many files wait, by source; None for a source that is not of files, or if Spark does not keep them.

    Spark's file source does not report them, but keeps the rest of its latest listing in the private field
    `unreadFiles`. The field holds at most `maxCachedFiles` files, by default 10,000. It holds none if less than a fifth
    of a batch is left (`discardCachedInputRatio`), or if a batch takes all files. In a run that ends when its sources
    are empty, Spark lists the files once and does not use this field. Empty if this version of Spark keeps the files
    elsewhere.
    """
    global _has_failed
    if _has_failed:
        return ()
    try:
        sources: Any = query._jsq.streamingQuery().sources()
        return [_files_of(sources.apply(number)) for number in range(sources.size())]
    except (Py4JError, TypeError) as error:  # TypeError: the method does not exist
        _has_failed = True
        _log.info("the files that wait are not told: %s", str(error).partition("\n")[0])
        return ()


def _files_of(source: Any) -> int | None:
    kind = source.getClass()
    if kind.getSimpleName() != _CLASS or _private(source, _LISTED_ONCE) is not None:
        return None
    files = _private(source, _UNREAD)
    return 0 if files is None else int(files.size())


def _private(source: Any, name: str) -> Any:
    field = source.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(source)


@dataclass(frozen=True)
class Lag:
    """By stream spout, or for `ALL_SPOUTS` together; a spout is missing if its source reports nothing."""

    offsets: Mapping[str, int] = field(default_factory=dict)  # of Kafka: records
    files: Mapping[str, int] = field(default_factory=dict)


class SourceLag:
    """Subtracts the offsets of a micro-batch from the latest offsets of its sources.

    The latest offsets are in the query's progress, which is read at most once a second.
    """

    def __init__(
        self,
        spouts: Sequence[str],  # the stream spouts, in the order of their sources
        clock: Callable[[], float] = time.monotonic,
        files_of: Callable[[StreamingQuery], Sequence[int | None]] = waiting_files,
    ) -> None:
        self._spouts = spouts
        self._clock = clock
        self._files_of = files_of
        self._sources: list[dict[str, Any]] = []  # from the query's progress
        self._looked_at = float("-inf")

    def of(self, query: StreamingQuery, batch_offsets: bytes) -> Lag:
        """Return the query's lag after a micro-batch; Spark has written `batch_offsets` for it."""
        now = self._clock()
        if now - self._looked_at >= _BETWEEN_LOOKS_S:
            self._looked_at = now
            progress = query.lastProgress
            self._sources = [] if progress is None else json.loads(progress.json)["sources"]
        ends = self._ends(offsets_of(batch_offsets))
        counts = [
            behind(source.get("endOffset") if end is None else _decoded(end), source.get("latestOffset"))
            for source, end in zip(self._sources, ends, strict=True)
        ]
        return Lag(self._by_spout(counts), self._by_spout(self._files_of(query)))

    def _ends(self, offsets: Mapping[str, bytes]) -> Sequence[bytes | None]:
        """Return the offsets in the order of the sources; None for each if the order is unknown."""
        names, ends = [source_name(spout) for spout in self._spouts], list[bytes]()
        if set(names) == set(offsets):
            ends = [offsets[name] for name in names]
        elif "0" in offsets:  # in the order of the sources
            ends = [*offsets.values()]
        return ends if len(ends) == len(self._sources) else [None] * len(self._sources)

    def _by_spout(self, counts: Sequence[int | None]) -> Mapping[str, int]:
        """Add up the counts. Each spout has at least one source, so equal numbers mean one source per spout."""
        told: dict[str, int] = {}
        names = self._spouts if len(counts) == len(self._spouts) else [ALL_SPOUTS] * len(counts)
        for name, count in zip(names, counts, strict=True):
            if count is not None:
                told[name] = told.get(name, 0) + count
        return told


def _decoded(offset: bytes) -> Any:
    """Decode an offset; return None if it is malformed, or is Spark's `-` for a source that was not read yet."""
    try:
        return json.loads(offset)
    except (ValueError, RecursionError):
        return None


def behind(read: Any, latest: Any) -> int | None:
    """Subtract two offsets of a source: numbers, or nested dicts such as Kafka's. None if they hold no numbers."""
    if isinstance(latest, int) and not isinstance(latest, bool):
        return max(0, latest - read) if isinstance(read, int) else None
    if not isinstance(latest, dict):
        return None
    before = read if isinstance(read, dict) else {}
    parts = [behind(before.get(key, 0 if isinstance(value, int) else {}), value) for key, value in latest.items()]
    counts = [each for each in parts if each is not None]
    return sum(counts) if counts else None
