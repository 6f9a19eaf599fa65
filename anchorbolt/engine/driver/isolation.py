"""Finds the tuples on which bolts raise, and leaves them out as dead letters, so that the run goes on.

After a round that failed because a bolt raised, the same wave is run in a round that *isolates*: all its tuples are
tracked, those of stream spouts as well, and an exception fails only the trees of its tuple. So one round finds all of
them. The next round leaves them out.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorbolt.acker.verdict import Failure
from anchorbolt.checkpoint.dead_letters import DeadLetter
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.driver.rich_spouts import RichSpouts
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import AnchorboltError, BoltError
from anchorbolt.serialization import unpack


class Isolation:
    """The isolation of one run's waves."""

    def __init__(self, most_letters: int, spouts: RichSpouts | None) -> None:
        """Allow at most so many dead letters in a wave."""
        self._most_letters = most_letters
        self._spouts = spouts
        self._txid = -1
        self._isolates = False
        self._failures = 0  # rounds that failed on a tuple
        self._excluded: dict[int, Failure] = {}  # by root, of stream spouts
        self._cause: BoltError | None = None

    def begin(self, current: Round) -> Round:
        """Return the round as it is to be run."""
        if current.txid != self._txid:
            self._txid, self._isolates, self._failures, self._excluded = current.txid, False, 0, {}
        return replace(current, isolates=self._isolates, excluded_rows=frozenset(self._excluded))

    def failed(self, error: AnchorboltError) -> None:
        """Note that the round has failed: the next one isolates if a bolt raised on a tuple."""
        self._isolates = isinstance(error, BoltError) and error.tuple_text is not None
        if isinstance(error, BoltError) and self._isolates:
            self._failures += 1
            self._cause = error

    def judge(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether the round has to be repeated without the tuples that failed in it.

        Raises the `BoltError` that began it if more tuples failed than may become dead letters.
        """
        if not self._isolates:
            return False
        self._isolates = False
        failed = {failure.root: failure for report in reports for failure in report.isolated}
        of_streams = failed if self._spouts is None else self._spouts.exclude(failed)
        self._excluded.update(of_streams)
        if len(failed) > self._most_letters and self._cause is not None:
            raise self._cause
        return bool(failed)

    def letters(self, reports: Iterable[TaskReport]) -> list[DeadLetter]:
        """Return the dead letters of stream spouts, after the last round."""
        return [
            DeadLetter(
                report.component,
                stream,
                tuple(unpack(packed)),
                None,
                *self._excluded[root][1:4],
                self._failures + 1,
                time.time(),
            )
            for report in reports
            for root, stream, packed in report.left_out
        ]
