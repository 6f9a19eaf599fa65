"""The events to count: lines with a key and a time. One in a hundred is late. A seed always gives the same events."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from benchmarks.workloads import Output, Workload
from benchmarks.zipf_text import TextFiles, Vocabulary

__all__ = ["BEGIN_MS", "HOUR_MS", "LAG_MS", "WORKLOADS", "Events", "EventsWorkload"]

HOUR_MS = 3_600_000
LAG_MS = HOUR_MS
_LATE_SHARE = 0.01
_LATEST_MS = HOUR_MS // 2
BEGIN_MS = 1_700_002_800_000  # at a full hour; a past one, since the future does not move a watermark


@dataclass(frozen=True)
class EventsWorkload(Workload):
    """Batches of events.

    Attributes:
        span_ms: The time between the first event of a batch and that of the next one. A batch with its late events
            spans less than the lag, so that none is late for a window, whatever the order in which a side reads it.
    """

    span_ms: int = HOUR_MS

    @property
    def words(self) -> int:
        """Events in a batch: a line has one."""
        return self.sentences


# All measured batches of a round have an hour of events, and one of them closes an hour.
WORKLOADS = (
    EventsWorkload("hourly-500k", "500 k events a batch", 500_000, 2, Output.NONE, 3, 3, 3, 2, span_ms=HOUR_MS // 3),
    EventsWorkload("hourly-100k", "100 k events a batch", 100_000, 2, Output.NONE, 6, 5, 5, 2, span_ms=HOUR_MS // 5),
)


class Events:
    """An endless stream of events, written as files.

    Attributes:
        words: How many events were written so far.
    """

    def __init__(self, directory: Path, seed: int, span_ms: int) -> None:
        """Write into `directory`, which is made; a batch takes `span_ms` of the events' time."""
        vocabulary = Vocabulary()
        self._text = TextFiles(directory)
        self._random = random.Random(seed)
        self._keys = vocabulary.words()
        self._weights = list(accumulate(vocabulary.weights()))
        self._span_ms = span_ms
        self._now = BEGIN_MS
        self._all: Counter[tuple[str, int]] = Counter()
        self._closed_before = 0
        self.words = 0

    @property
    def counts(self) -> dict[tuple[str, int], int]:
        """How often each key was written in each hour that all sides have closed."""
        return self.closed(self._all)

    def closed(self, counts: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the counts of the hours that all sides have closed."""
        return {place: count for place, count in counts.items() if place[1] + HOUR_MS < self._closed_before}

    def write(self, sentences: int, files: int) -> None:
        """Add one batch of so many events, distributed evenly over so many files."""
        # What a side has closed when it has read this batch, if its watermark follows from the batch before.
        self._closed_before = self._now - self._span_ms // 2 - LAG_MS
        choices, lines = self._random, []
        keys = choices.choices(self._keys, cum_weights=self._weights, k=sentences)
        for number, key in enumerate(keys):
            at = self._now + number * self._span_ms // sentences
            if choices.random() < _LATE_SHARE:
                at = max(BEGIN_MS, at - choices.randrange(_LATEST_MS))
            self._all[key, at - at % HOUR_MS] += 1
            lines.append(f"{key},{at}")
        self._now += self._span_ms
        self.words += sentences
        self._text.add(lines, files)
