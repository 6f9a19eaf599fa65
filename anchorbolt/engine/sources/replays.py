"""Replays dead letters: the letters of an old wave are the source data of a new one, and move away once it commits."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.letters.letter_store import LetterStore, letters_of
from anchorbolt.checkpoint.ports import Batch, Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import REPLAYING_TASK, SourceRows, run_spout_task
from anchorbolt.errors import SinkUnavailable

_log = logging.getLogger("anchorbolt.engine")

_LOOK_S = 1.0
_SHARE = 20  # a look that takes 1 s is followed by 20 s without one


class Replays(Source):
    """The dead letters that wait to be replayed. Their tuples come from the same spouts as before.

    The letters of one file are part of a wave for which no other source has a batch.
    """

    def __init__(self, plan: ExecutionPlan, store: LetterStore) -> None:
        self._plan = plan
        self._streams = {component: plan.wiring.streams[component] for component in plan.graph.spouts}
        self._letters = store
        self._places = ("", store.location)  # the first is for a record without places
        self._next: str | None = None
        self._look_at = float("-inf")
        self.current = ""  # the name of the letters that the current wave replays; empty if none
        self._rows: dict[TaskKey, list[SourceRows]] = {}

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        """Move away the letters that a decision has replayed here, if an earlier run could not."""
        for place in self._places:
            if place in checkpoints.record.replayed:
                self._letters.finish(checkpoints.record.replayed[place])

    @property
    def known(self) -> Mapping[str, str]:
        """The letters that the current wave replays, see `DecisionRecord.replayed`."""
        return dict.fromkeys(self._places, "") | {self._letters.location: self.current}

    def poll(self) -> bool:
        return not self.is_held and self._is_waiting

    @property
    def is_empty(self) -> bool:
        return not self._is_waiting

    @property
    def _is_waiting(self) -> bool:
        """Whether letters wait. Reads the store at most once a second, less often if that takes long."""
        began = time.monotonic()
        if self._next is None and began >= self._look_at:
            try:
                self._next = next(iter(self._letters.waiting()), None)
            except SinkUnavailable as error:  # a wave that needs it fails; that letters wait may be seen later
                _log.warning("whether dead letters wait to be replayed cannot be seen: %s", error)
            ended = time.monotonic()
            self._look_at = ended + max(_LOOK_S, _SHARE * (ended - began))  # no wave runs meanwhile
        return self._next is not None

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        if batch is None and not self.is_held:
            self._take()
        return batch

    def _take(self) -> None:
        name, self._next = self._next, None
        self.current, self._rows = name or "", {}
        rows: defaultdict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
        for txid, letter in letters_of(self._letters, name, waiting=True) if name else ():
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

    def rows(self, current: Round) -> Iterator[Envelope]:
        for task, rows in self.tasks():
            yield from run_spout_task(self._plan, *task, current, rows)

    def tasks(self) -> Iterator[tuple[TaskKey, list[SourceRows]]]:
        """Yield the source data of the current wave, by task. May be called on any thread."""
        yield from self._rows.items()

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        """Move the letters away."""
        if self.current:
            self._letters.finish(self.current)
        return report

    def end_wave(self, txid: int) -> None:
        """Forget the wave's letters; they still wait if the wave has not committed."""
        if self.current:
            self._look_at = float("-inf")  # more letters may wait
        self.current, self._rows = "", {}
