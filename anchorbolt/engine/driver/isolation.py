"""Finds the tuples on which bolts raise or workers die, and leaves them out as dead letters, so that the run goes on.

After a round failed because a bolt raised, the same wave runs again in a round that *isolates*: all its tuples are
tracked, also those of stream spouts, and an exception fails only the trees of its tuple. So one round finds all such
tuples, and the next round leaves them out. If workers die in two rounds of a wave, a binary search finds the tuple. The
rounds of the search isolate, too, so that other tuples do not end it. A wave that processes dead letters again isolates
from its first round: dead letters have no message to fail.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import Others, Probe, Round
from anchorbolt.engine.sources.rich_spouts import RichSpouts
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.errors import AnchorboltError, BoltError, WorkerLost
from anchorbolt.serialization import unpack
from anchorbolt.tracking.verdict import Failure

_END = 1 << 64
_ALONE = 2  # rounds with one tuple alone


_log = logging.getLogger("anchorbolt.engine")

_DIED = "a worker process died each time that it was executed"


class Halving:
    """A binary search for the tuple with the lowest root that kills its worker: a dead worker reports nothing. Pure.

    The tuples of a wave have roots that look random, so half of a range of roots holds about half of its tuples. A
    round runs with the tuples of the lower half only. If a worker dies, the tuple is one of them. Otherwise the spouts'
    tasks report the roots in the other half, and the range shrinks to these tuples until it holds only one. The last
    rounds run with that tuple alone. The search blames the tuple only if a worker dies in each of them: if a worker was
    killed from outside, the search may end at an innocent tuple, or at none.
    """

    def __init__(self, first: int = 1) -> None:
        """Search from root `first` on; 0 is the root of all untracked tuples."""
        self._window = first, _END
        self._tuples: int | None = None  # estimated number in the window; if known, a tuple has the window's first root
        self._alone = 0  # rounds with one tuple alone in which a worker died
        self.is_done = False
        self.found: int | None = None  # the root, once the search is done; None if no tuple kills its worker

    @property
    def probe(self) -> Probe:
        """The roots of the next round."""
        first, end = self._window
        # Halving the range down to one root would take 60 rounds.
        is_alone = end - first == 1 or self._tuples == 1
        return Probe(first, first + 1 if is_alone else first + (end - first) // 2, end)

    def died(self) -> None:
        """Note that a worker died in that round."""
        first, middle, _ = self.probe
        if middle == first + 1:
            self._alone += 1
            if self._alone == _ALONE:
                self.is_done, self.found = True, first
        self._window = first, middle
        if self._tuples is not None:
            self._tuples = (self._tuples + 1) // 2

    def survived(self, others: Others | None) -> None:
        """Note that the workers survived that round; `others` are the tuples in the half that did not run."""
        if others is None:
            self.is_done = True
        else:
            self._window = others.lowest, others.highest + 1
            self._tuples = others.tuples


class Isolation:
    """The isolation of one run's waves."""

    def __init__(self, most_letters: int, spouts: RichSpouts | None) -> None:
        """Allow at most `most_letters` dead letters in a wave."""
        self._most_letters = most_letters
        self._spouts = spouts
        self._reset(-1, isolates=False)

    def _reset(self, txid: int, *, isolates: bool) -> None:
        self._txid = txid
        self._isolates = isolates
        self._tries = 0  # rounds that failed on a tuple
        self._deaths = 0  # rounds in which workers died, without those of a search
        self._excluded: dict[int, Failure] = {}  # by root, of stream spouts
        self._found = 0  # tuples on which workers died
        self._clean = 1  # tuples with lower roots are known not to kill a worker
        self._halving: Halving | None = None
        self._cause: AnchorboltError | None = None
        self._gives_up = False  # too many rows failed: the wave fails as without dead letters

    def begin(self, current: Round, *, replays: bool = False) -> Round:
        """Return the round to run; `replays` if its wave processes dead letters again."""
        if current.txid != self._txid:
            self._reset(current.txid, isolates=replays)
        halving = self._halving
        isolates = self._isolates or halving is not None
        return replace(
            current,
            isolates=isolates,
            checks=current.checks or isolates,
            excluded_rows=frozenset(self._excluded),
            probe=None if halving is None else halving.probe,
        )

    def failed(self, error: AnchorboltError) -> bool:
        """Note that the round has failed; return whether to repeat it without counting a failure.

        The next round isolates if a bolt raised on a tuple.
        """
        if self._halving is not None:
            if isinstance(error, WorkerLost):
                self._halving.died()
                self._end_halving(self._halving)
                return True
            return False  # this says nothing about the tuple, so the same half runs again
        if isinstance(error, WorkerLost):
            self._tries += 1
            self._deaths += 1
            if self._deaths < 2 or self._found >= self._most_letters:
                return False
            self._halving = Halving(self._clean)
            return True
        is_of_tuple = error.found_late or (isinstance(error, BoltError) and error.tuple_text is not None)
        if not is_of_tuple or self._gives_up:
            return False
        self._tries += 1
        self._cause = error
        is_new, self._isolates = not self._isolates, True
        return is_new

    def is_probe(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether the round belonged to a search, and continue the search. Ignore all else in such a round.

        A bolt may have failed in it only because half of the tuples were not sent.
        """
        if self._halving is None:
            return False
        self._halving.survived(Others.joined([report.others for report in reports]))
        self._end_halving(self._halving)
        return True

    def judge(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether the round must be repeated without the tuples that failed in it.

        Raises the error that started the isolation if more rows of stream spouts failed than may become dead letters.
        Messages of rich spouts are tried again, or counted as dead letters later.
        """
        if not self._isolates:
            return False
        self._isolates = False
        failed = {failure.root: failure for report in reports for failure in report.failed_trees}
        rows = failed if self._spouts is None else self._spouts.book.exclude(failed)
        found = len(self._excluded) + len(rows)
        if found > self._most_letters and self._cause is not None:
            self._gives_up = True
            _log.error(
                "txid %d: bolts raise on %d tuples of the wave, and topology.dead.letter.max.per.wave is %d: it fails "
                "as without dead letters",
                self._txid,
                found,
                self._most_letters,
                extra={"txid": self._txid},
            )
            raise self._cause
        self._excluded.update(rows)
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
                self._tries + 1,
                time.time(),
            )
            for report in reports
            for root, stream, packed in report.left_out
        ]

    def _end_halving(self, halving: Halving) -> None:
        if not halving.is_done:
            return
        self._halving = None
        root = halving.found
        if root is None:
            self._deaths, self._clean = 0, 1
            text = "txid %d: workers died, but of no tuple: none was found by halves"
            _log.warning(text, self._txid, extra={"txid": self._txid})
            return
        self._found += 1
        self._deaths, self._clean = 1, root + 1
        if self._spouts is None or not self._spouts.book.exclude_for_good(root, _DIED):
            self._excluded[root] = Failure(root, "", -1, _DIED)
