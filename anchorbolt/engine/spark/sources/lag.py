"""How far a streaming query is behind its sources, where they tell Spark."""

import json
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_BETWEEN_LOOKS_S = 1.0  # Spark's progress takes several calls to the JVM: not after each of many short waves


class SourceLag:
    """Reads the progress of a query, at most once a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._behind: int | None = None
        self._looked_at = float("-inf")

    def offsets_behind(self, query: StreamingQuery) -> int | None:
        """Return by how many offsets the query was behind its sources after its latest finished micro-batch.

        None if no source tells its latest offset. Kafka tells it: there an offset is a record.
        """
        now = self._clock()
        if now - self._looked_at >= _BETWEEN_LOOKS_S:
            self._looked_at = now
            progress = query.lastProgress
            sources = [] if progress is None else json.loads(progress.json)["sources"]
            told = [behind(source.get("endOffset"), source.get("latestOffset")) for source in sources]
            counts = [each for each in told if each is not None]
            self._behind = sum(counts) if counts else None
        return self._behind


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
