"""Feeds dead letters back in: a file of them is the source data of a wave; it is moved away once that has committed."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.spout_task import REPLAYING_TASK, SourceRows

_log = logging.getLogger("anchorbolt.engine")

_LOOK_S = 1.0


class Replays:
    """The dead letters that wait to be replayed. Their tuples come from the spouts that they came from before."""

    def __init__(self, plan: ExecutionPlan, location: str) -> None:
        self._streams = {component: plan.streams[component] for component in plan.graph.spouts}
        self._letters = LetterFolder(location)
        self._next: str | None = None
        self._looked_at = float("-inf")
        self.current = ""  # the file that the current wave replays; empty if none
        self._rows: dict[TaskKey, list[SourceRows]] = {}

    def open(self, record: DecisionRecord) -> None:
        """Move away what the last decision has replayed."""
        if record.replayed:
            self._letters.finish(record.replayed)

    @property
    def is_waiting(self) -> bool:
        """Whether a file waits. Looks at most once a second."""
        now = time.monotonic()
        if self._next is None and now >= self._looked_at + _LOOK_S:
            self._looked_at = now
            self._next = next(self._letters.waiting(), None)
        return self._next is not None

    def begin_wave(self) -> None:
        """Take the next file, if one is known to wait."""
        name, self._next = self._next, None
        self.current, self._rows = name or "", {}
        rows: defaultdict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
        for txid, letter in self._letters.waiting_letters(name) if name else ():
            stream = self._streams.get(letter.spout, {}).get(letter.stream)
            if stream is None or len(stream.fields) + stream.direct != len(letter.values):
                _log.warning(
                    "a dead letter of txid %d cannot be replayed: spout %r no longer emits %d values to stream %r; it "
                    "is in %s",
                    txid,
                    letter.spout,
                    len(letter.values),
                    letter.stream,
                    name,
                )
                continue
            rows[letter.spout, letter.stream].append(letter.values)
        for (spout, name_of_stream), values in rows.items():
            columns = list(map(list, zip(*values, strict=True)))
            self._rows.setdefault((spout, REPLAYING_TASK), []).append(SourceRows(name_of_stream, len(values), columns))

    def settle(self) -> None:
        """Move the file away, after the wave has committed."""
        if self.current:
            self._letters.finish(self.current)

    def end_wave(self) -> None:
        """Forget the wave's file; it still waits if the wave has not committed."""
        if self.current:
            self._looked_at = float("-inf")  # another file may wait behind it
        self.current, self._rows = "", {}

    def rows(self) -> Iterator[tuple[TaskKey, list[SourceRows]]]:
        """Yield the source data of the current wave, by task. May be called on any thread."""
        yield from self._rows.items()
