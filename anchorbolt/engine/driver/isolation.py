"""Finds the tuples on which bolts raise or workers die, and leaves them out as dead letters, so that the run goes on.

After a round that failed because a bolt raised, the same wave is run in a round that *isolates*: all its tuples are
tracked, those of stream spouts as well, and an exception fails only the trees of its tuple. So one round finds all of
them. The next round leaves them out. If workers die in two rounds of a wave, the tuple is looked for by halves.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorbolt.acker.verdict import Failure
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.driver.halving import Halving, Window
from anchorbolt.engine.spouts.rich_spouts import RichSpouts
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import AnchorboltError, BoltError, WorkerLost
from anchorbolt.serialization import unpack

_DIED = "a worker process died each time that it was executed"


class Isolation:
    """The isolation of one run's waves."""

    def __init__(self, most_letters: int, spouts: RichSpouts | None) -> None:
        """Allow at most so many dead letters in a wave."""
        self._most_letters = most_letters
        self._spouts = spouts
        self._reset(-1)

    def _reset(self, txid: int) -> None:
        self._txid = txid
        self._isolates = False
        self._tries = 0  # rounds that failed on a tuple
        self._excluded: dict[int, Failure] = {}  # by root, of stream spouts
        self._windows: list[Window] = []  # each with a tuple of a stream spout on which workers died
        self._found = 0  # tuples on which workers died
        self._halving: Halving | None = None
        self._cause: AnchorboltError | None = None

    def begin(self, current: Round) -> Round:
        """Return the round as it is to be run."""
        if current.txid != self._txid:
            self._reset(current.txid)
        return replace(
            current,
            isolates=self._isolates,
            excluded_rows=frozenset(self._excluded),
            excluded_windows=tuple(self._windows),
            only=None if self._halving is None else self._halving.probe,
        )

    def failed(self, error: AnchorboltError) -> bool:
        """Note that the round has failed; return whether it is only to be repeated, because a search goes on.

        The next round isolates if a bolt raised on a tuple.
        """
        if self._halving is not None and isinstance(error, WorkerLost):
            self._halving.died()
            self._end_halving()
            return True
        is_first, self._halving = self._cause is None, None
        self._isolates = isinstance(error, BoltError) and error.tuple_text is not None
        if self._isolates or isinstance(error, WorkerLost):
            self._tries += 1
            self._cause = error
        if is_first or not isinstance(error, WorkerLost) or self._found >= self._most_letters:
            return False
        self._halving = Halving()
        return True

    def judge(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether the round has to be repeated without the tuples that failed in it.

        Raises the error that began it if more tuples failed than may become dead letters.
        """
        if self._halving is not None:
            self._halving.survived(sum(report.tuples_out for report in reports if report.is_spout))
            self._end_halving()
            return True
        if not self._isolates:
            return False
        self._isolates = False
        failed = {failure.root: failure for report in reports for failure in report.failed_trees}
        self._excluded.update(failed if self._spouts is None else self._spouts.exclude(failed))
        if len(failed) > self._most_letters and self._cause is not None:
            raise self._cause
        return bool(failed)

    def letters(self, reports: Iterable[TaskReport]) -> list[DeadLetter]:
        """Return the dead letters of stream spouts, after the last round."""
        died = Failure(0, "", -1, _DIED)
        return [
            DeadLetter(
                report.component,
                stream,
                tuple(unpack(packed)),
                None,
                *self._excluded.get(root, died)[1:4],
                self._tries + 1,
                time.time(),
            )
            for report in reports
            for root, stream, packed in report.left_out
        ]

    def _end_halving(self) -> None:
        halving = self._halving
        if halving is None or not halving.is_done:
            return
        self._halving = None
        self._found += 1
        if self._spouts is None or not self._spouts.exclude_window(halving.window, _DIED):
            self._windows.append(halving.window)
