"""`TaskWindows` against windows computed by their definition, over waves, rollbacks and restarts."""

from typing import Any
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from anchorbolt.streams.tuple import StreamHeader, Tuple
from anchorbolt.windows import pages, task_windows
from anchorbolt.windows.pages import PageStore
from anchorbolt.windows.task_windows import TaskWindows, TupleWindow, WindowSize
from tests.windows.model import Fired, windows

HEADER = StreamHeader("spout", 3, "default", ("number", "at"))


class DictState(dict[Any, Any]):
    def put(self, key: Any, value: Any, *, ttl: Any = None) -> None:
        self[key] = value

    def prefetch(self, keys: Any) -> None:
        """Do nothing: all is here."""

    def delete(self, key: Any) -> None:
        self.pop(key, None)


class Task:
    """One task: waves are saved in a dict, as they are in a state."""

    def __init__(self, size: WindowSize, *, by_event_time: bool) -> None:
        self.size, self.by_event_time = size, by_event_time
        self.committed, self.fired = DictState(), list[Fired]()
        self.restart()

    def restart(self) -> None:
        self.state = DictState(self.committed)
        self.store = PageStore(self.state, has_ttl=False)  # type: ignore[arg-type]
        self.windows = TaskWindows(self.size, self.store, by_event_time=self.by_event_time)

    def wave(self, tuples: list[tuple[int, int]], until: int | None, *, rolled_back: bool = False) -> None:
        """Run a wave as `WindowedBoltExecutor` does; `until` is the clock or the watermark."""
        due, windows = self.windows.next_due, self.windows
        fired: list[Fired] = []

        def execute(window: TupleWindow) -> None:
            parts = window.get(), window.get_new(), window.get_expired()
            numbers = [[tup["number"] for tup in part] for part in parts]
            assert list(map(len, numbers)) == list(map(len, parts))
            fired.append(Fired(window.start_timestamp, window.end_timestamp, *numbers))

        for number, at in tuples:
            windows.add(at, Tuple((number, at), HEADER))
        due = windows.next_due
        if due is not None and until is not None and due <= until:
            if self.by_event_time:
                windows.release(until)
            windows.fire_timed(until, execute)
        if self.by_event_time and until is not None:
            windows.release(until, exactly=self.size.every_count is not None)
        windows.fire_counted(execute)
        windows.save()
        if rolled_back:
            self.restart()
        else:
            self.committed = DictState(self.state)
            self.fired += fired


counts, durations = st.integers(1, 12), st.integers(1, 60)
lengths = st.one_of(counts.map(lambda count: (count, None)), durations.map(lambda ms: (None, ms)))
sizes = st.builds(lambda length, every: WindowSize(*length, *every), lengths, lengths)
steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 40), max_size=12),
        st.integers(0, 40),
        st.sampled_from(["kept", "restarted", "rolled back", "kept"]),
    ),
    max_size=12,
)
small_pages = mock.patch.multiple(pages, PAGE_TUPLES=3, FINEST_MS=4, PART_BYTES=64)


@settings(max_examples=400, deadline=None)
@given(size=sizes, waves=steps)
def test_windows_by_arrival_equal_their_definition_whatever_is_rolled_back_or_restarted(
    size: WindowSize, waves: Any
) -> None:
    with small_pages:
        task, clock, times = Task(size, by_event_time=False), 0, list[int]()
        for offsets, step, what in waves:
            clock += step
            tuples = [(len(times) + place, clock) for place in range(len(offsets))]
            if what == "rolled back":
                task.wave(tuples, clock, rolled_back=True)
            task.wave(tuples, clock)
            times += [clock] * len(tuples)
            if what == "restarted":
                task.restart()
        assert task.fired == windows(size, times, clock, by_event_time=False)


@settings(max_examples=400, deadline=None)
@given(size=sizes, waves=steps, lag=st.integers(0, 60))
@example(size=WindowSize(length_ms=10, every_ms=10), waves=[([10], 10, "kept"), ([0], 40, "kept")], lag=0)
def test_windows_by_event_time_equal_their_definition_for_each_order_within_the_lag(
    size: WindowSize, waves: Any, lag: int
) -> None:
    with small_pages, mock.patch.object(task_windows, "FINEST_MS", 4):
        task, watermark, latest, times = Task(size, by_event_time=True), None, 0, list[int]()
        for offsets, step, what in waves:
            tuples = []
            for offset in offsets:
                at = max(0, latest + offset - 20)
                if watermark is None or at >= watermark:
                    tuples.append((len(times), at))
                    times.append(at)
            if what == "rolled back":
                task.wave(tuples, watermark, rolled_back=True)
            task.wave(tuples, watermark)
            latest = max([latest + step, *(at for _, at in tuples)])
            watermark = max(watermark or 0, latest - lag)
            if what == "restarted":
                task.restart()
        if watermark is not None:
            task.wave([], watermark)
            assert task.fired == windows(size, times, watermark, by_event_time=True)


@settings(max_examples=100, deadline=None)
@given(
    size=sizes.filter(lambda size: size.every_count is None),
    times=st.lists(st.integers(0, 3000), max_size=60),
    order=st.randoms(),
    data=st.data(),
)
def test_windows_by_event_time_do_not_depend_on_order_or_waves(
    size: WindowSize, times: list[int], order: Any, data: Any
) -> None:
    expected = windows(size, times, 4000, by_event_time=True)
    shuffled = list(enumerate(times))
    order.shuffle(shuffled)
    with small_pages:
        task = Task(size, by_event_time=True)
        while shuffled:
            length = data.draw(st.integers(1, len(shuffled)))
            task.wave(shuffled[:length], -1)
            shuffled = shuffled[length:]
        for watermark in (500, 1001, 2500):
            task.wave([], watermark)
        while (due := task.windows.next_due) is not None and due <= 4000:
            task.wave([], 4000)
    assert [(fired.start, fired.end, sorted(fired.numbers)) for fired in task.fired if size.length_ms] == [
        (fired.start, fired.end, sorted(fired.numbers)) for fired in expected if size.length_ms
    ]
