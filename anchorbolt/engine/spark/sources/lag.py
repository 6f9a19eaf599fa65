"""How far a streaming query is behind its sources, where they tell Spark."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from anchorbolt.engine.spark.sources.known import source_name
from anchorbolt.engine.spark.sources.offset_log import offsets_of
from anchorbolt.engine.spark.sources.waiting_files import waiting_files

_BETWEEN_LOOKS_S = 1.0  # Spark's progress takes several calls to the JVM: not after each of many short waves

ALL_SPOUTS = ""
"""The name for the lag of all sources together, if a spout has several: Spark does not say which source is whose."""


@dataclass(frozen=True)
class Lag:
    """By stream spout, or of `ALL_SPOUTS` together; spouts whose sources tell nothing are missing."""

    offsets: Mapping[str, int] = field(default_factory=dict)  # of Kafka: records
    files: Mapping[str, int] = field(default_factory=dict)


class SourceLag:
    """Subtracts what a micro-batch reads from what its sources have.

    What they have is in the progress of the query, which is read at most once a second.
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
        self._sources: list[dict[str, Any]] = []  # what the progress tells
        self._looked_at = float("-inf")

    def of(self, query: StreamingQuery, batch_offsets: bytes) -> Lag:
        """Return how far the query is behind its sources with a micro-batch, whose offsets Spark has written."""
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
        """Return the offsets in the order of the sources; None for each if that is not known."""
        names, ends = [source_name(spout) for spout in self._spouts], list[bytes]()
        if set(names) == set(offsets):
            ends = [offsets[name] for name in names]
        elif "0" in offsets:  # their order is that of the sources
            ends = [*offsets.values()]
        return ends if len(ends) == len(self._sources) else [None] * len(self._sources)

    def _by_spout(self, counts: Sequence[int | None]) -> Mapping[str, int]:
        """Add up what the sources tell. Each spout has a source at least, so as many sources are one of each."""
        told: dict[str, int] = {}
        names = self._spouts if len(counts) == len(self._spouts) else [ALL_SPOUTS] * len(counts)
        for name, count in zip(names, counts, strict=True):
            if count is not None:
                told[name] = told.get(name, 0) + count
        return told


def _decoded(offset: bytes) -> Any:
    """Decode an offset; return None for Spark's `-`, of a source from which nothing was read, or a malformed one."""
    try:
        return json.loads(offset)
    except (ValueError, RecursionError):
        return None


def behind(read: Any, latest: Any) -> int | None:
    """Subtract two offsets of a source: numbers, or dicts of them such as Kafka's. None if they tell nothing."""
    if isinstance(latest, int) and not isinstance(latest, bool):
        return max(0, latest - read) if isinstance(read, int) else None
    if not isinstance(latest, dict):
        return None
    before = read if isinstance(read, dict) else {}
    parts = [behind(before.get(key, 0 if isinstance(value, int) else {}), value) for key, value in latest.items()]
    counts = [each for each in parts if each is not None]
    return sum(counts) if counts else None
