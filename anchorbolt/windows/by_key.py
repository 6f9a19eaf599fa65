"""What the two kinds of bolts with windows by key share, and the check of their attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.timed.timers import Timer, TimerClock, Timers
from anchorbolt.streams.declaration import Grouping
from anchorbolt.util.times import NEVER, Duration, to_ms
from anchorbolt.windows.aligned import AlignedWindows
from anchorbolt.windows.kinds import Aggregate, Session, Tumbling
from anchorbolt.windows.sessions import SessionWindows


class WindowsByKey(BaseStatefulBolt[KeyValueState[Any, Any]]):
    """The common part of `BaseWindowBolt` and `BaseArrowWindowBolt`, which describe the attributes."""

    state_ttl = NEVER  # an open window never expires, whatever the topology's TTL is
    window: Tumbling | Session
    lateness: Duration = "0 s"
    late_stream: str | None = None

    @property
    def window_aggregate(self) -> Aggregate:
        """How the values of windows are made."""
        raise NotImplementedError

    @property
    def needs_key(self) -> bool:
        """Whether the key of a tuple is the value by which it was grouped."""
        return True

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Keep the state. Called once for an instance; not to be overridden."""
        self._state = state

    def init_timers(self, timers: Timers[Any]) -> None:
        """Keep the timers. Called once for an instance; not to be overridden."""
        self._timers = timers
        self._lateness_ms = to_ms(self.lateness)
        clock: TimerClock = "processing" if self.event_time is None else "event"
        common = self.window_aggregate, self._state, timers, clock, self._lateness_ms
        self._windows: SessionWindows | AlignedWindows
        if isinstance(self.window, Session):
            self._windows = SessionWindows(self.window, *common)
        else:
            self._windows = AlignedWindows(self.window, *common)

    def flush_windows(self) -> None:
        """Put the windows that have changed into the state. Called by the engine, after a wave's tuples."""
        self._windows.flush()

    def timer_keys(self, timer: Timer) -> Iterator[Any]:
        """Yield the keys of the state that closing a window needs. Called by the engine."""
        return self._windows.keys_of_timer(timer)


def problem_with(bolt: WindowsByKey, groupings: Iterable[Grouping], streams: Collection[str]) -> str:
    """Return the first problem in the declaration of a bolt, as the end of a message; empty if it is valid."""
    window: object = getattr(bolt, "window", None)
    if not isinstance(window, Tumbling | Session):
        return f'has window {window!r}. Set Tumbling("1 h"), Sliding("10 min", every="1 min") or Session(gap="30 min").'
    if isinstance(window, Session) and not bolt.window_aggregate.can_merge:
        return "has sessions, and does not override merge. Override it: a tuple can join two sessions."
    try:
        if to_ms(bolt.lateness) and bolt.event_time is None:
            return "has lateness, but no event_time. By the wave's clock no tuple is late: remove it."
    except ValueError as error:
        return f"has lateness {bolt.lateness!r}: {error}."
    if bolt.late_stream is not None and bolt.late_stream not in streams:
        return f"has late_stream {bolt.late_stream!r}, which it does not declare. Declare it with the input's fields."
    if bolt.needs_key:
        for grouping in groupings:
            if grouping.name not in ("fields", "global"):
                return (
                    f"has windows by key, and takes a stream by {grouping}. Take it by fields_grouping, by "
                    "global_grouping for windows over all tuples, or override key; a BaseArrowWindowBolt has over_task."
                )
    return ""
