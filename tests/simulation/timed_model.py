"""What the bolt with time has to come to, computed without the library, and the checks of a committed wave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from anchorbolt.checkpoint.times import BoltTimes
from tests.simulation.timed_topology import (
    AFTER,
    AGAIN,
    BY_EVENT,
    FIRINGS,
    LAG_MS,
    NUMBER,
    SHORT_TTL_MS,
    TOTAL,
    TTL_MS,
    event_time_of,
    words_of,
)
from tests.simulation.violation import Violation


class Entry(NamedTuple):
    value: int
    until: int | None  # ms; None for ever


class DueTimer(NamedTuple):
    by_event: bool
    at: int
    word: str
    name: str


Row = tuple[int, int, str, str, int, int]
"""A row of the sink: the task, the number of its firing, the word, the timer's name, its time, the value read."""


@dataclass
class Times:
    """The state of all tasks of the bolt after a wave."""

    clock: int = 0
    watermark: int | None = None
    latest: dict[bool, int] = field(default_factory=dict)  # by stream, False for the default one
    entries: dict[str, Entry] = field(default_factory=dict)
    firings: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # by task
    timers: dict[tuple[str, str], DueTimer] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)  # of the last wave, in the order of each task

    def value(self, key: str) -> int:
        entry = self.entries.get(key)
        return 0 if entry is None or (entry.until is not None and entry.until <= self.clock) else entry.value

    def live(self) -> dict[str, int]:
        """Return the entries that a user sees, without those that a task has for itself."""
        return {key: self.value(key) for key in self.entries if self.value(key)}

    def is_due(self, timer: DueTimer, clock: int) -> bool:
        return timer.at <= clock if not timer.by_event else self.watermark is not None and timer.at <= self.watermark


class TimedModel:
    """The bolt's states after each wave, for batches of lines and the clocks of the waves."""

    def __init__(
        self, batches: Sequence[Sequence[str]], timers_per_wave: int, delay_ms: Callable[[str, int], int]
    ) -> None:
        self._batches = batches
        self._most = timers_per_wave
        self._delay_ms = delay_ms
        self._waves: list[tuple[int | None, int]] = []  # the batch and the clock of each
        self._states = [Times()]

    def after(self, waves: Sequence[tuple[int | None, int]], task_of: Mapping[str, int]) -> Times:
        """Return the state after waves with these batches and clocks. `task_of` has the task of each word."""
        same = 0
        while same < min(len(waves), len(self._waves)) and waves[same] == self._waves[same]:
            same += 1
        del self._waves[same:], self._states[same + 1 :]
        for batch, clock in waves[same:]:
            self._waves.append((batch, clock))
            self._states.append(self._next(self._states[-1], batch, clock, task_of))
        return self._states[len(waves)]

    def _next(self, before: Times, batch: int | None, clock: int, task_of: Mapping[str, int]) -> Times:
        if clock < before.clock:
            raise Violation(f"the clock of a wave went back from {before.clock} to {clock}")
        now = deepcopy(before)
        now.clock, now.rows = clock, []
        for line in () if batch is None else self._batches[batch]:
            at = event_time_of(line)
            for place, word in enumerate(words_of(line)):
                odd = place % 2 == 1
                now.latest[odd] = max(at, now.latest.get(odd, at))
                self._count(now, word, at)
        for task in sorted(set(task_of.values())):
            self._fire(now, task, task_of)
        if len(now.latest) == 2:
            reached = min(now.latest.values()) - LAG_MS
            now.watermark = reached if now.watermark is None else max(reached, now.watermark)
        return now

    def _count(self, now: Times, word: str, at: int) -> None:
        total, number = now.value(TOTAL + word) + 1, now.value(NUMBER + word) + 1
        now.entries[TOTAL + word] = Entry(total, None)
        if total % 7 == 3:
            now.entries.pop(NUMBER + word, None)
        else:
            ttl = {5: None, 2: SHORT_TTL_MS}.get(total % 7, TTL_MS)
            now.entries[NUMBER + word] = Entry(number, None if ttl is None else now.clock + ttl)
        if total % 6 == 4:
            now.timers.pop((word, AFTER), None)
        else:
            due = now.clock + self._delay_ms(word, total)
            now.timers[word, AFTER] = DueTimer(False, due, word, AFTER)
        known = now.timers.get((word, BY_EVENT))
        due = max(at + self._delay_ms(word, 0), 0 if known is None else known.at)
        now.timers[word, BY_EVENT] = DueTimer(True, due, word, BY_EVENT)

    def _fire(self, now: Times, task: int, task_of: Mapping[str, int]) -> None:
        due = [timer for timer in now.timers.values() if now.is_due(timer, now.clock) and task_of[timer.word] == task]
        taken = {(timer.word, timer.name): timer for timer in sorted(sorted(due)[: self._most], key=_order)}
        for place in taken:
            del now.timers[place]
        for place, timer in list(taken.items()):
            if place not in taken:
                continue  # cancelled
            del taken[place]
            word = timer.word
            fired, number = now.value(FIRINGS + word) + 1, now.value(NUMBER + word)
            now.entries[FIRINGS + word] = Entry(fired, None)
            now.firings[task] += 1
            now.rows.append((task, now.firings[task], word, timer.name, timer.at, number))
            if fired % 3 == 0:
                taken.pop((word, AGAIN), None)
                again = DueTimer(False, timer.at + fired % 4 * 1000 + 1, word, AGAIN)
                now.timers[word, AGAIN] = again
            if fired % 4 == 1:
                taken.pop((word, BY_EVENT), None)
                now.timers.pop((word, BY_EVENT), None)
            if fired % 5 == 2:
                now.entries[NUMBER + word] = Entry(number + 10, now.clock + TTL_MS)


def check_times(wanted: Times, found: BoltTimes, txid: int) -> None:
    """Check what the decision record says of the bolt."""
    if found.watermark != wanted.watermark:
        raise Violation(f"after txid {txid} the watermark is {found.watermark}, not {wanted.watermark}")
    for by_event, told in ((False, found.due.processing), (True, found.due.event)):
        earliest = min((timer.at for timer in wanted.timers.values() if timer.by_event is by_event), default=None)
        if earliest is not None and (told is None or told > earliest):
            raise Violation(f"after txid {txid} a timer is due at {earliest}, and the record says {told}")


def check_state(wanted: Times, found: Mapping[str, int], txid: int) -> None:
    """Check the live entries of all tasks, without the numbers of firings."""
    if found != wanted.live():
        raise Violation(f"after txid {txid} the entries with time are {found}, not {wanted.live()}")


def check_rows(wanted: Times, found: Sequence[Row], txid: int) -> None:
    """Check the timers that a wave has fired, and their order."""
    if sorted(found) != sorted(wanted.rows):
        raise Violation(f"txid {txid} fired the timers {sorted(found)}, not {sorted(wanted.rows)}")


def _order(timer: DueTimer) -> tuple[int, str, str]:
    return timer.at, timer.word, timer.name


def check_no_timer_waits(wanted: Times, clock: int) -> None:
    """Check that the run has not ended with a timer that is due."""
    due = [timer for timer in wanted.timers.values() if wanted.is_due(timer, clock)]
    if due:
        raise Violation(f"the run has ended at {clock}, and these timers are due: {due}")
