"""A state with TTLs and timers is a dictionary with times, whatever the waves, crashes, restarts and cache sizes."""

import uuid
from contextlib import closing
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.state_backends.timed import expiry as expiry_module
from anchorbolt.state_backends.timed.timers import Timer
from anchorbolt.testing.conformance.base import entries, new_namespace

KEYS = st.sampled_from(["a", "b", "c", "é", 1, True, ("a", 1), None])
VALUES = st.one_of(st.integers(-5, 5), st.just(2**40), st.text(max_size=3), st.lists(st.integers(), max_size=2))
TTLS = st.one_of(
    st.just(None),
    st.just("never"),
    st.integers(1, 400).map(lambda ms: timedelta(milliseconds=ms)),
    st.just(timedelta(days=10_000)),
)
NAMES = st.sampled_from(["", "x"])


def typed(key: Any) -> tuple[type, Any]:
    return type(key), key


class TimedStateMachine(RuleBasedStateMachine):
    provider: StateProvider | None = None
    """The provider under test; None for a new memory provider in each example."""

    @initialize(
        cache=st.integers(0, 6),
        pending=st.integers(1, 5),
        ttl=st.one_of(st.none(), st.integers(1, 200)),
        most=st.sampled_from((1, 3, 100_000)),
    )
    def start(self, cache: int, pending: int, ttl: int | None, most: int) -> None:
        expiry_module.SWEPT_PER_WAVE, expiry_module._SPARE = most, -20  # headers are forgotten at each eviction
        self.store = self.provider or MemoryStateProvider()
        self.namespace = new_namespace()
        self.limits: dict[str, Any] = {"cache_entries": cache, "pending_entries": pending, "ttl_ms": ttl}
        self.ttl = ttl
        self.fence, self.at = Fence(1, 0), (-1, "")
        self.clock, self.watermark = 1_000, 0
        # By key: the key, the value, and when it expires; by key and name: the timer.
        self.expiring = False
        self.entries: dict[Any, tuple[Any, Any, int | None]] = {}
        self.timers: dict[Any, Timer] = {}
        self.open()

    def teardown(self) -> None:
        expiry_module.SWEPT_PER_WAVE, expiry_module._SPARE = 100_000, 1024
        if hasattr(self, "state"):
            self.state.close()

    def open(self) -> None:
        self.state: KeyValueState[Any, Any] = KeyValueState(self.store.open(self.namespace), **self.limits)
        assert self.state.timed.timers is self.state.timed.timers
        self.begin()

    def begin(self) -> None:
        self.fence = Fence(1, self.fence.seq + 1)
        self.attempt = uuid.uuid4().hex
        self.before = dict(self.entries), dict(self.timers)
        self.state.begin(
            AttemptScope(self.fence, self.at[0] + 1, self.attempt, *self.at, self.clock, self.watermark, self.expiring)
        )

    def live(self, key: Any) -> Any:
        _, value, until = self.entries.get(typed(key), (None, None, None))
        return None if until is not None and until <= self.clock else value

    @rule(key=KEYS, value=VALUES, ttl=TTLS)
    def put(self, key: Any, value: Any, ttl: Any) -> None:
        self.state.put(key, value, ttl=ttl)
        ms = self.ttl if ttl is None else None if ttl == "never" else ttl // timedelta(milliseconds=1)
        self.entries[typed(key)] = key, value, None if ms is None else self.clock + ms

    @rule(key=KEYS, value=st.integers(-5, 5))
    def add(self, key: Any, value: int) -> None:
        before = self.live(key)
        if before is None or type(before) is int:
            assert self.state.add(key, value) == (before or 0) + value
            self.entries[typed(key)] = key, (before or 0) + value, self.ttl and self.clock + self.ttl

    @rule(keys=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5), value=st.integers(-5, 5))
    def put_array(self, keys: list[str], value: int) -> None:
        self.state.put_array(keys, [value] * len(keys))
        for key in keys:
            self.entries[typed(key)] = key, value, self.ttl and self.clock + self.ttl

    @rule(keys=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5))
    def add_array(self, keys: list[str]) -> None:
        before = {key: self.live(key) for key in keys}
        if all(each is None or type(each) is int for each in before.values()):
            self.state.add_array(keys, [1] * len(keys))
            for key, each in before.items():
                total = (each or 0) + keys.count(key)
                self.entries[typed(key)] = key, total, self.ttl and self.clock + self.ttl

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        assert self.state.delete(key) == self.live(key)
        self.entries.pop(typed(key), None)

    @rule(key=KEYS)
    def get(self, key: Any) -> None:
        assert self.state.get(key) == self.live(key)

    @rule(keys=st.lists(KEYS, max_size=4))
    def prefetch(self, keys: list[Any]) -> None:
        self.state.prefetch(keys)

    @rule()
    def scan(self) -> None:
        found = sorted((repr(key), repr(value)) for key, value in self.state.items())
        expected = [(key, self.live(key)) for key, _, _ in self.entries.values() if self.live(key) is not None]
        assert found == sorted((repr(key), repr(value)) for key, value in expected)
        assert len(self.state) == len(expected)

    @rule(key=KEYS, name=NAMES, after=st.integers(-50, 3000), by_event=st.booleans())
    def set_timer(self, key: Any, name: str, after: int, by_event: bool) -> None:
        if by_event:
            at = self.watermark + after
            self.state.timed.timers.set(key, at=at, name=name, clock="event")
        elif after >= 0:
            at = self.clock + after
            self.state.timed.timers.set(key, after=timedelta(milliseconds=after), name=name)
        else:
            at = self.clock + after
            self.state.timed.timers.set(key, at=at, name=name)
        self.timers[typed(key), name] = Timer(key, name, at, "event" if by_event else "processing")

    @rule(key=KEYS, name=NAMES)
    def cancel_timer(self, key: Any, name: str) -> None:
        self.state.timed.timers.cancel(key, name)
        self.timers.pop((typed(key), name), None)

    @rule(key=KEYS, name=NAMES)
    def get_timer(self, key: Any, name: str) -> None:
        timer = self.timers.get((typed(key), name))
        assert self.state.timed.timers.get(key, name) == (None if timer is None else timer.at)

    @rule(
        most=st.sampled_from((1, 2, 100)),
        cancels=st.booleans(),
        sets=st.booleans(),
        ahead=st.one_of(st.integers(0, 60), st.integers(0, 5000)),
    )
    def commit(self, most: int, cancels: bool, sets: bool, ahead: int) -> None:
        present = {"processing": self.clock, "event": self.watermark}
        due = [timer for timer in self.timers.values() if timer.at <= present[timer.clock]]
        taken = self.state.timed.take_due(most)
        assert len(taken) == min(most, len(due))
        for clock in ("processing", "event"):
            times = [timer.at for timer in taken if timer.clock == clock]
            assert times == sorted(timer.at for timer in due if timer.clock == clock)[: len(times)]
        cancelled = taken[-1] if cancels and len(taken) > 1 else None
        for number, timer in enumerate(taken):
            if timer is cancelled:
                assert not self.state.timed.timers.fire(timer)
                continue
            assert self.state.timed.timers.fire(timer)
            assert self.timers.pop((typed(timer.key), timer.name)) == timer
            if number == 0 and cancelled is not None:
                self.cancel_timer(cancelled.key, cancelled.name)
            if number == 0 and sets:
                self.set_timer(timer.key, timer.name, -1, by_event=False)
        self.state.prepare_commit(self.at[0] + 1)
        for number, clock in enumerate(("processing", "event")):
            earliest = min((timer.at for timer in self.timers.values() if timer.clock == clock), default=None)
            told = self.state.timed.next_due[number]
            if earliest is not None:
                assert told is not None
                assert told <= earliest
        self.expiring = self.state.timed.next_due.expiry is not None
        if self.state.seal is not None:
            self.state.commit(self.at[0] + 1)
            self.at = self.at[0] + 1, self.attempt
        self.entries = {key: entry for key, entry in self.entries.items() if self.live(entry[0]) is not None}
        self.clock += ahead
        self.watermark += ahead // 2
        self.begin()

    @rule()
    def roll_back(self) -> None:
        self.entries, self.timers = self.before
        self.state.rollback()
        self.begin()

    @rule()
    def crash(self) -> None:
        self.entries, self.timers = self.before
        self.state.close()
        with closing(self.store.open(self.namespace)) as storage:
            storage.rollback(Fence(1, self.fence.seq + 1))
        self.fence = Fence(1, self.fence.seq + 2)
        self.open()

    @rule(is_done=st.sampled_from([False] * 9 + [True]))
    def everything_ends(self, is_done: bool) -> None:
        """With no timer set and all TTLs over, the store holds what stays, and no index."""
        if not is_done:
            return
        self.roll_back()
        for timer in list(self.timers.values()):
            self.cancel_timer(timer.key, timer.name)
        for _ in range(25):
            self.commit(100, cancels=False, sets=False, ahead=10**12)
        stays = {key for key, (_, _, until) in self.entries.items() if until is None}
        with closing(self.store.open(self.namespace)) as storage:
            stored = entries(storage)
        assert len(stored) == len(stays)
        assert not any(key.startswith(INDEX_TAG) for key in stored)


TestTimedState = TimedStateMachine.TestCase
TestTimedState.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
