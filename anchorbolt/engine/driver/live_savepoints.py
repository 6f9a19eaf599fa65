"""The driver's part in a savepoint that a command takes while the topology runs; see `maintenance.live_savepoint`.

A thread looks for a command, and writes the answers. The loop of the waves only passes by, between two waves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import record_namespace
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import AnchorboltError
from anchorbolt.files import Folder
from anchorbolt.maintenance.live_savepoint import PATIENCE_S, Answered, Asked, NotedWave, Progressed, SavepointFiles

_log = logging.getLogger("anchorbolt.engine")

_INTERVAL_S = 1.0
_END_S = 5.0


@dataclass
class _Kept:
    """A savepoint that is being taken."""

    id: str
    txid: int  # of the last wave that was noted
    waves: list[NotedWave] = field(default_factory=list)  # not yet written
    files: int = 0  # of written waves
    chosen: Answered | None = None  # without the number of files


class LiveSavepoints:
    """Serves one command at a time. `keeping` and `between_waves` are for the thread of the waves."""

    def __init__(self, plan: ExecutionPlan, folder: Folder) -> None:
        self._plan = plan
        self._files = SavepointFiles(folder)
        self._asked: Asked | None = None  # None also if the command has died
        self._read: Asked | None = None  # as in the file
        self._read_at = 0.0  # for the first time
        self._kept: _Kept | None = None
        self._answered: Answered | None = None
        self._closed = threading.Event()
        self._generation = 0
        self._wake: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="anchorbolt-savepoints", daemon=True)

    def open(self, generation: int, wake: Callable[[], None]) -> None:
        """Begin to look for commands. `wake` makes the loop call `between_waves` soon."""
        self._generation, self._wake = generation, wake
        self._thread.start()

    def close(self) -> None:
        """Stop, and tell a command that waits."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join(_END_S)
        if self._asked is not None:
            self._files.answer(Answered(self._asked.id, Progressed.ENDED, self._generation))

    @property
    def keeping(self) -> str:
        """The savepoint for which the tasks of the next round keep what they stage; empty if there is none."""
        kept = self._kept
        return "" if kept is None or kept.chosen is not None else kept.id

    def between_waves(self, record: DecisionRecord) -> None:
        """Begin to keep changes, note the wave that has committed, or choose it."""
        asked, kept = self._asked, self._kept
        if (asked is None and kept is None) or record.state.phase is not Phase.COMMITTED:
            return
        if kept is not None and kept.chosen is None and record.txid > kept.txid:
            kept.waves.append(NotedWave(record.txid, record.winners))
            kept.txid = record.txid
        if asked is None or kept is None or kept.id != asked.id:
            self._kept = None if asked is None else _Kept(asked.id, record.txid)
        elif asked.is_read and kept.chosen is None:
            with closing(self._plan.provider.open(record_namespace(self._plan.wiring.prefix))) as storage:
                entries = dict(entry for page in storage.scan() for entry in page)
            kept.chosen = Answered(kept.id, Progressed.CHOSEN, self._generation, 0, record.encode(), entries)

    def _run(self) -> None:
        is_first = True
        while not self._closed.wait(0 if is_first else _INTERVAL_S):
            try:
                if is_first and self._files.asked() is None:
                    self._files.forget()  # what an earlier run has left
                is_first = False
                self._look()
            except (OSError, AnchorboltError) as error:  # the run goes on without it
                _log.warning("a savepoint is asked for, but %s", error)

    def _look(self) -> None:
        asked = self._files.asked()
        if asked != self._read:
            self._read, self._read_at = asked, time.monotonic()
        elif time.monotonic() - self._read_at > PATIENCE_S:
            asked = None
        before, self._asked = self._asked, asked
        if asked != before:
            self._wake()
        kept = self._kept
        if asked is not None:
            self._answer(asked, kept)
        elif kept is None and self._answered is not None:
            self._files.forget()
            self._answered = None

    def _answer(self, asked: Asked, kept: _Kept | None) -> None:
        answer = Answered(asked.id, Progressed.SEEN, self._generation, asked.beat)
        if kept is not None and kept.id == asked.id:
            chosen = kept.chosen  # first: then no wave is noted any more
            if waves := kept.waves[:]:
                self._files.note(asked.id, kept.files, waves)
                kept.files += 1
                del kept.waves[: len(waves)]
            answer = replace(answer, progressed=Progressed.KEEPS)
            if chosen is not None:
                answer = replace(chosen, beat=asked.beat, files=kept.files)
        if answer != self._answered:
            self._files.answer(answer)
            self._answered = answer
