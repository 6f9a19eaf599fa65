"""How far a streaming query is behind its sources, where they tell Spark."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

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
    """Reads the progress of a query, at most once a second."""

    def __init__(
        self,
        spouts: Sequence[str],  # the stream spouts, in the order of their sources
        clock: Callable[[], float] = time.monotonic,
        files_of: Callable[[StreamingQuery], Sequence[int | None]] = waiting_files,
    ) -> None:
        self._spouts = spouts
        self._clock = clock
        self._files_of = files_of
        self._lag = Lag()
        self._looked_at = float("-inf")

    def of(self, query: StreamingQuery) -> Lag:
        """Return how far the query was behind its sources after its latest finished micro-batch."""
        now = self._clock()
        if now - self._looked_at >= _BETWEEN_LOOKS_S:
            self._looked_at = now
            progress = query.lastProgress
            sources = [] if progress is None else json.loads(progress.json)["sources"]
            offsets = [behind(source.get("endOffset"), source.get("latestOffset")) for source in sources]
            self._lag = Lag(self._by_spout(offsets), self._by_spout(self._files_of(query)))
        return self._lag

    def _by_spout(self, counts: Sequence[int | None]) -> Mapping[str, int]:
        """Add up what the sources tell. Each spout has a source at least, so as many sources are one of each."""
        told: dict[str, int] = {}
        names = self._spouts if len(counts) == len(self._spouts) else [ALL_SPOUTS] * len(counts)
        for name, count in zip(names, counts, strict=True):
            if count is not None:
                told[name] = told.get(name, 0) + count
        return told


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
